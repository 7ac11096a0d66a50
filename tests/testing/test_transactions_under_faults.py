"""Transactional producers under faults: retried, aborted and fatal errors."""

from __future__ import annotations

import confluent_kafka
import pytest

from tests.testing.clients import confluent_producer, deliver, read
from wirekafka import Broker


def _producer(broker: Broker) -> confluent_kafka.Producer:
    broker.create_topic("t")
    return confluent_producer(broker, **{"transactional.id": "x"})


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
        ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_a_transaction_commits_after_a_retriable_error(
    broker: Broker, api: str, error: str
) -> None:
    with broker.fail(api, error, times=1, required=True):
        producer = _producer(broker)
        producer.init_transactions(15)
        producer.begin_transaction()
        assert deliver(producer, "t") is None
        producer.commit_transaction(15)
    (record,) = broker.records("t")
    assert record.transaction == "committed"


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("EndTxn", "PRODUCER_FENCED"),
        ("EndTxn", "INVALID_TXN_STATE"),
        ("AddPartitionsToTxn", "INVALID_PRODUCER_ID_MAPPING"),
    ],
)
def test_a_fatal_error_ends_the_producer(broker: Broker, api: str, error: str) -> None:
    producer = _producer(broker)
    with broker.fail(api, error, transactional_id="x", required=True):
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            producer.init_transactions(15)
            producer.begin_transaction()
            deliver(producer, "t")
            producer.commit_transaction(15)
        assert raised.value.args[0].fatal() or raised.value.args[0].txn_requires_abort()
    assert all(each.transaction != "committed" for each in broker.records("t"))


def test_a_lost_commit_response_is_retried(broker: Broker) -> None:
    producer = _producer(broker)
    producer.init_transactions(15)
    producer.begin_transaction()
    assert deliver(producer, "t") is None
    with broker.drop("EndTxn", applied=True, times=1, required=True):
        producer.commit_transaction(15)
    assert [each.transaction for each in broker.records("t")] == ["committed"]


def test_a_moved_transaction_coordinator_is_found_again(broker: Broker) -> None:
    producer = _producer(broker)
    producer.init_transactions(15)
    producer.begin_transaction()
    assert deliver(producer, "t") is None
    broker.move_coordinator(transactional_id="x")
    producer.commit_transaction(15)
    assert [each.transaction for each in broker.records("t")] == ["committed"]


def test_a_crash_in_a_transaction_leaves_it_open_until_it_times_out(broker: Broker) -> None:
    producer = _producer(broker)
    producer.init_transactions(15)
    producer.begin_transaction()
    assert deliver(producer, "t") is None
    broker.crash()
    broker.restart()
    assert [each.transaction for each in broker.records("t")] == ["open"]
    broker.clock.advance(minutes=2)
    broker.wait_for(lambda: [each.transaction for each in broker.records("t")] == ["aborted"])
    broker.produce("t", [b"after"])
    assert read("confluent-kafka", broker, "t", 1) == [b"after"]
