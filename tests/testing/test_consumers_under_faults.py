"""Stock consumers under each fault: they rejoin, reset, retry or report it, as with Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.testing.clients import CLIENTS, confluent_consumer, polled, read, until
from wirekafka import Broker

each_client = pytest.mark.parametrize("client", CLIENTS)


@each_client
@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_a_failed_fetch_is_retried(broker: Broker, client: str, error: str) -> None:
    broker.produce("t", [b"1", b"2"])
    with broker.fail("Fetch", error, topic="t", times=2) as rule:
        assert read(client, broker, "t", 2) == [b"1", b"2"]
    assert rule.hits == 2


@each_client
@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
    ],
)
def test_a_group_forms_after_a_retriable_error(
    broker: Broker, client: str, api: str, error: str
) -> None:
    broker.produce("t", [b"1"])
    about = {"topic": "t"} if api == "Metadata" else {}
    with broker.fail(api, error, times=1, required=True, **about):  # type: ignore[arg-type]
        assert read(client, broker, "t", 1, group="g") == [b"1"]


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python"])
def test_a_fetch_of_an_unstable_offset_is_retried(broker: Broker, client: str) -> None:
    broker.produce("t", [b"1"])
    with broker.fail("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", times=2, required=True):
        assert read(client, broker, "t", 1, group="g") == [b"1"]


@pytest.mark.parametrize(
    ("api", "error", "reported"),
    [
        ("Fetch", "TOPIC_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"),
        ("FindCoordinator", "GROUP_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
        ("JoinGroup", "INVALID_SESSION_TIMEOUT", "INVALID_SESSION_TIMEOUT"),
    ],
)
def test_fatal_errors_are_reported(broker: Broker, api: str, error: str, reported: str) -> None:
    broker.produce("t", [b"1"])
    with broker.fail(api, error, required=True):
        assert read("confluent-kafka", broker, "t", 1, group="g") == reported


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        ("ILLEGAL_GENERATION", "ILLEGAL_GENERATION"),
        ("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
        ("REBALANCE_IN_PROGRESS", "REBALANCE_IN_PROGRESS"),
        ("GROUP_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
        ("OFFSET_METADATA_TOO_LARGE", "OFFSET_METADATA_TOO_LARGE"),
    ],
)
def test_a_commit_that_fails_is_reported(broker: Broker, error: str, reported: str) -> None:
    broker.produce("t", [b"1"])
    consumer = confluent_consumer(broker, "g")
    consumer.subscribe(["t"])
    message = polled(consumer)
    rule = broker.fail("OffsetCommit", error, group="g", topic="t")
    with rule, pytest.raises(confluent_kafka.KafkaException) as raised:
        consumer.commit(message, asynchronous=False)
    assert raised.value.args[0].name() == reported and rule.hits == 1
    assert broker.committed("g") == {}
    consumer.close()


@pytest.mark.parametrize(
    "error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"]
)
def test_a_commit_finds_the_coordinator_again(broker: Broker, error: str) -> None:
    broker.produce("t", [b"1"])

    async def run() -> None:
        async with aiokafka.AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=10,
        ) as consumer:
            await consumer.getone()
            with broker.fail("OffsetCommit", error, times=1, required=True):
                await consumer.commit()

    asyncio.run(run())
    assert broker.committed("g") == {("t", 0): 1}
    broker.requests.assert_committed("g", "t", 0, 1, times=1)


def test_an_offset_out_of_range_resets(broker: Broker) -> None:
    broker.produce("t", [b"1", b"2"])
    with broker.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic="t", times=1, required=True):
        consumer = confluent_consumer(broker, "g")
        consumer.assign([TopicPartition("t", 0, 1)])
        assert polled(consumer).value() == b"1"
        consumer.close()


def test_a_slow_fetch_returns_its_records_late(broker: Broker) -> None:
    broker.produce("t", [b"1"])
    with broker.delay("Fetch", 0.3, times=1, required=True):
        assert read("confluent-kafka", broker, "t", 1) == [b"1"]


def test_only_one_topics_fetches_fail(broker: Broker) -> None:
    broker.produce("bad", [b"1"])
    broker.produce("good", [b"2"])
    with broker.fail("Fetch", "UNKNOWN_LEADER_EPOCH", topic="bad", required=True):
        consumer = confluent_consumer(broker, "g")
        consumer.assign([TopicPartition("bad", 0, 0), TopicPartition("good", 0, 0)])
        assert polled(consumer).value() == b"2"
    assert polled(consumer).value() == b"1"
    consumer.close()


def test_a_member_that_expires_joins_again(broker: Broker) -> None:
    broker.produce("t", [b"1"])
    consumer = confluent_consumer(broker, "g", **{"client.id": "c"})
    lost: list[Any] = []
    consumer.subscribe(["t"], on_lost=lambda _, partitions: lost.extend(partitions))
    polled(consumer)
    (before,) = broker.groups()[0].members
    broker.expire_member("g", client_id="c")
    until(consumer, lambda: broker.groups()[0].state == "Stable" and lost != [])
    (after,) = broker.groups()[0].members
    assert after.id != before.id
    consumer.close()


def test_an_expired_members_partitions_are_assigned_to_the_other(broker: Broker) -> None:
    broker.create_topic("t", partitions=2)
    one, other = (confluent_consumer(broker, "g", **{"client.id": name}) for name in ("1", "2"))
    one.subscribe(["t"])
    until(one, lambda: len(one.assignment()) == 2)
    other.subscribe(["t"])

    def share() -> bool:
        one.poll(0.02)
        return len(one.assignment()) == 1 and len(other.assignment()) == 1

    until(other, share)
    broker.expire_member("g", client_id="1")
    until(other, lambda: len(other.assignment()) == 2)
    other.close()
    one.close()


def test_a_moved_group_coordinator_is_found_again(broker: Broker) -> None:
    broker.produce("t", [b"1", b"2"])
    consumer = confluent_consumer(broker, "g")
    consumer.subscribe(["t"])
    message = polled(consumer)
    broker.move_coordinator(group="g")
    consumer.commit(message, asynchronous=False)
    assert broker.committed("g") == {("t", 0): 1}
    assert broker.groups()[0].state == "Stable"
    consumer.close()


@each_client
def test_a_consumer_continues_after_a_crash(broker: Broker, client: str) -> None:
    broker.produce("t", [b"1"])
    broker.crash()
    broker.restart()
    broker.produce("t", [b"2"])
    assert read(client, broker, "t", 2, group="g") == [b"1", b"2"]


def test_a_group_survives_a_crash(broker: Broker) -> None:
    broker.produce("t", [b"1", b"2"])
    consumer = confluent_consumer(broker, "g")
    consumer.subscribe(["t"])
    consumer.commit(polled(consumer), asynchronous=False)
    broker.crash()
    broker.restart()
    assert broker.committed("g") == {("t", 0): 1}
    broker.produce("t", [b"3"])
    values = []
    while b"3" not in values:
        message = polled(consumer)
        if message.error() is None:
            values.append(message.value())
    assert values == [b"2", b"3"]
    consumer.close()
