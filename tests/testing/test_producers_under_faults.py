"""Stock producers under each fault: which errors they retry, and which they report."""

from __future__ import annotations

import time

import confluent_kafka
import pytest

from tests.testing.clients import CLIENTS, confluent_producer, deliver, send
from wirekafka import Broker

each_client = pytest.mark.parametrize("client", CLIENTS)

RETRIED = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "KAFKA_STORAGE_ERROR",
)
REPORTED = {
    # By client: what librdkafka calls it, and the class that Python clients raise.
    "MESSAGE_TOO_LARGE": ("MSG_SIZE_TOO_LARGE", "MessageSizeTooLargeError"),
    "TOPIC_AUTHORIZATION_FAILED": ("TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationFailedError"),
    "INVALID_TIMESTAMP": ("INVALID_TIMESTAMP", "InvalidTimestampError"),
    "RECORD_LIST_TOO_LARGE": ("RECORD_LIST_TOO_LARGE", "RecordListTooLargeError"),
}


@each_client
@pytest.mark.parametrize("error", RETRIED)
def test_a_producer_retries(broker: Broker, client: str, error: str) -> None:
    broker.create_topic("t")
    with broker.fail("Produce", error, topic="t", times=2) as rule:
        assert send(client, broker, "t") is None
    assert rule.hits == 2
    assert [record.value for record in broker.records("t")] == [b"v"]


@each_client
@pytest.mark.parametrize("error", REPORTED)
def test_a_producer_reports_the_error(broker: Broker, client: str, error: str) -> None:
    broker.create_topic("t")
    with broker.fail("Produce", error, topic="t") as rule:
        reported = send(client, broker, "t")
    assert reported == REPORTED[error][client != "confluent-kafka"]
    assert rule.hits == 1
    assert broker.records("t") == []


@each_client
def test_a_dropped_connection_before_the_write_loses_nothing(broker: Broker, client: str) -> None:
    broker.create_topic("t")
    with broker.drop("Produce", times=1, required=True):
        assert send(client, broker, "t") is None
    assert len(broker.records("t")) == 1


def test_a_response_lost_after_the_write_duplicates_the_record(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    with broker.drop("Produce", applied=True, times=1, required=True):
        assert deliver(producer, "t") is None
    assert len(broker.records("t")) == 2


def test_a_response_lost_after_an_idempotent_write_duplicates_nothing(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker, **{"enable.idempotence": True})
    with broker.drop("Produce", applied=True, times=1, required=True):
        assert deliver(producer, "t") is None
    (record,) = broker.records("t")
    assert (record.producer_id >= 0, record.sequence) == (True, 0)


def test_an_error_after_the_write_duplicates_the_record(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    with broker.fail("Produce", "REQUEST_TIMED_OUT", applied=True, times=1, required=True):
        assert deliver(producer, "t") is None
    assert len(broker.records("t")) == 2


def test_only_the_chosen_partition_fails(broker: Broker) -> None:
    broker.create_topic("t", partitions=2)
    producer = confluent_producer(broker, **{"linger.ms": 50})
    reported: dict[int, object] = {}
    with broker.fail("Produce", "MESSAGE_TOO_LARGE", topic="t", partition=1) as rule:
        for partition in (0, 1):
            producer.produce(
                "t",
                b"v",
                partition=partition,
                on_delivery=lambda error, message: reported.update({message.partition(): error}),
            )
        producer.flush(10)
    assert reported[0] is None and reported[1].name() == "MSG_SIZE_TOO_LARGE"  # type: ignore[attr-defined]
    assert rule.hits == 1
    assert [record.partition for record in broker.records("t")] == [0]


def test_only_the_chosen_client_fails(broker: Broker) -> None:
    broker.create_topic("t")
    one = confluent_producer(broker, **{"client.id": "one"})
    other = confluent_producer(broker, **{"client.id": "other"})
    with broker.fail("Produce", "INVALID_TIMESTAMP", client_id="one") as rule:
        assert deliver(other, "t") is None
        assert deliver(one, "t") == "INVALID_TIMESTAMP"
    assert rule.hits == 1


def test_the_nth_request_fails_and_no_other(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    with broker.fail("Produce", "INVALID_TIMESTAMP", nth=2):
        assert [deliver(producer, "t") for _ in range(3)] == [None, "INVALID_TIMESTAMP", None]


def test_the_same_seed_fails_the_same_requests(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    outcomes = []
    for _ in range(2):
        with broker.fail("Produce", "INVALID_TIMESTAMP", probability=0.5, seed=7) as rule:
            outcomes.append([deliver(producer, "t") for _ in range(12)])
        assert 0 < rule.hits < 12
    assert outcomes[0] == outcomes[1]


def test_a_condition_chooses_by_the_request_itself(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    with broker.fail("Produce", "INVALID_TIMESTAMP", when=lambda asked: asked.acks == -1) as rule:
        assert deliver(producer, "t") == "INVALID_TIMESTAMP"
    assert rule.hits == 1


def test_a_delayed_request_takes_that_long(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    assert deliver(producer, "t") is None
    started = time.monotonic()
    with broker.delay("Produce", 0.3, required=True):
        assert deliver(producer, "t") is None
    assert 0.3 <= time.monotonic() - started < 3


def test_a_delay_beyond_the_clients_timeout_is_a_timeout(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker, **{"message.timeout.ms": 300})
    with broker.delay("Produce", 30.0):
        assert deliver(producer, "t") == "_MSG_TIMED_OUT"


def test_a_held_request_waits_for_its_release(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    reported: list[object] = []
    with broker.hold("Produce") as rule:
        producer.produce("t", b"v", on_delivery=lambda error, message: reported.append(error))
        producer.poll(0)
        broker.wait_for(lambda: rule.waiting == 1)
        assert producer.flush(0.1) == 1 and broker.records("t") == []
        rule.release()
        assert producer.flush(10) == 0
    assert reported == [None] and len(broker.records("t")) == 1


def test_a_held_response_was_applied(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    with broker.hold("Produce", applied=True) as rule:
        producer.produce("t", b"v")
        producer.poll(0)
        broker.wait_for(lambda: rule.waiting == 1)
        assert len(broker.records("t")) == 1
    assert producer.flush(10) == 0


def test_a_throttled_producer_slows_down(broker: Broker) -> None:
    broker.create_topic("t")
    throttled: list[float] = []
    producer = confluent_producer(
        broker, throttle_cb=lambda event: throttled.append(event.throttle_time)
    )
    assert deliver(producer, "t") is None
    with broker.throttle("Produce", 0.3, times=1, required=True):
        assert deliver(producer, "t") is None
        started = time.monotonic()
        assert deliver(producer, "t") is None
    producer.poll(0)
    assert time.monotonic() - started >= 0.25
    assert throttled and throttled[0] == pytest.approx(0.3)
    reported = [each.response.throttle_time_ms for each in broker.requests.of("Produce")]
    assert reported == [0, 300, 0]


def test_a_full_disk_is_a_storage_error_until_there_is_room(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker, **{"message.timeout.ms": 400})
    with broker.disk_full():
        assert deliver(producer, "t") is not None
        assert set(broker.requests.of("Produce")[-1].errors[0].name) and all(
            error.name == "KAFKA_STORAGE_ERROR"
            for each in broker.requests.of("Produce")
            for error in each.errors
        )
    assert deliver(confluent_producer(broker), "t") is None
    assert len(broker.records("t")) == 1


def test_a_broker_that_refuses_connections_is_waited_for(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker)
    assert deliver(producer, "t") is None
    reported: list[object] = []
    with broker.refuse_connections():
        producer.produce("t", b"v", on_delivery=lambda error, message: reported.append(error))
        assert producer.flush(0.3) == 1
    assert producer.flush(10) == 0 and reported == [None]


def test_a_client_cannot_start_while_connections_are_refused(broker: Broker) -> None:
    broker.create_topic("t")
    with broker.refuse_connections():
        assert send("aiokafka", broker, "t") == "KafkaConnectionError"
    assert send("aiokafka", broker, "t") is None


def test_a_fenced_producer_gets_a_fatal_error(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker, **{"transactional.id": "x"})
    producer.init_transactions(10)
    producer.begin_transaction()
    assert deliver(producer, "t") is None
    broker.fence_producer("x")
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.commit_transaction(10)
    assert raised.value.args[0].fatal()
    assert [record.transaction for record in broker.records("t")] == ["aborted"]
