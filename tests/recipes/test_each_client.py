"""The guide's recipes with the Python clients that the guide does not show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from tests.testing.clients import CLIENTS, confluent_consumer, polled, read, send
from wirekafka import Broker
from wirekafka.testing import Record

HOUR_MS = 3_600_000
each_client = pytest.mark.parametrize("client", CLIENTS)


def _with_aiokafka(run: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(run(), 60))


def _kafka_consumer(broker: Broker) -> kafka.KafkaConsumer:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.partitions_for_topic("orders")
    consumer.subscribe(["orders"])
    return consumer


def _first(consumer: kafka.KafkaConsumer) -> Any:
    while True:
        for records in consumer.poll(200, max_records=1).values():
            return records[0]


def test_rebalance_during_commit_with_kafka_python() -> None:
    with Broker() as broker:
        broker.produce("orders", ["1", "2"])
        consumer = _kafka_consumer(broker)
        _first(consumer)
        rule = broker.fail("OffsetCommit", "ILLEGAL_GENERATION", times=1)
        with rule, pytest.raises(kafka.errors.CommitFailedError):
            consumer.commit()
        assert broker.committed("billing") == {}
        consumer.close(autocommit=False)


def test_rebalance_during_commit_with_aiokafka() -> None:
    async def run() -> None:
        async with Broker() as broker:
            broker.produce("orders", ["1", "2"])
            async with aiokafka.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="billing",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer:
                await consumer.getone()
                rule = broker.fail("OffsetCommit", "REBALANCE_IN_PROGRESS", times=1)
                with rule, pytest.raises(aiokafka.errors.CommitFailedError):
                    await consumer.commit()
                assert broker.committed("billing") == {}

    _with_aiokafka(run)


def test_a_fenced_producer_with_kafka_python() -> None:
    with Broker(topics=["orders"]) as broker:
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="x"
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"1").get(30)
        broker.fence_producer("x")
        with pytest.raises(kafka.errors.KafkaError):
            producer.commit_transaction()
        assert [each.transaction for each in broker.records("orders")] == ["aborted"]
        producer.close(2)


def test_a_fenced_producer_with_aiokafka() -> None:
    async def run() -> None:
        async with Broker(topics=["orders"]) as broker:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap_servers, transactional_id="x"
            )
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"1")
            broker.fence_producer("x")
            with pytest.raises(aiokafka.errors.ProducerFenced):
                await producer.commit_transaction()
            assert [each.transaction for each in broker.records("orders")] == ["aborted"]
            await producer.stop()

    _with_aiokafka(run)


def test_exactly_once_with_kafka_python() -> None:
    with Broker(topics=["out"]) as broker:
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="x", retry_backoff_ms=10
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("out", b"1").get(30)
        with broker.drop("EndTxn", applied=True, times=1, required=True):
            producer.commit_transaction()
        assert [each.transaction for each in broker.records("out")] == ["committed"]
        producer.close(2)


def test_exactly_once_with_aiokafka() -> None:
    async def run() -> None:
        async with Broker() as broker:
            broker.produce("in", ["a"])
            async with (
                aiokafka.AIOKafkaConsumer(
                    "in",
                    bootstrap_servers=broker.bootstrap_servers,
                    group_id="copier",
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                ) as consumer,
                aiokafka.AIOKafkaProducer(
                    bootstrap_servers=broker.bootstrap_servers,
                    transactional_id="copier",
                    retry_backoff_ms=10,
                ) as producer,
            ):
                record = await consumer.getone()
                with broker.fail("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", times=1, required=True):
                    async with producer.transaction():
                        await producer.send("out", record.value.upper())
                        partition = aiokafka.TopicPartition("in", 0)
                        await producer.send_offsets_to_transaction({partition: 1}, "copier")
            (copied,) = broker.records("out")
            assert (copied.value, copied.transaction) == (b"A", "committed")
            assert broker.committed("copier") == {("in", 0): 1}

    _with_aiokafka(run)


@each_client
def test_broker_restart(client: str) -> None:
    with Broker(topics=["orders"]) as broker:
        assert send(client, broker, "orders", b"before") is None
        broker.crash()
        broker.restart()
        assert send(client, broker, "orders", b"after") is None
        assert read(client, broker, "orders", 2, group="billing") == [b"before", b"after"]


@each_client
def test_poison_and_dead_letters(client: str) -> None:
    with Broker(topics=["dead"]) as broker:
        broker.produce("orders", ["1", "x", "2"])
        good = []
        with broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="dead", times=1, required=True):
            for value in read(client, broker, "orders", 3, group="billing"):
                try:
                    good.append(int(value))
                except ValueError:
                    assert send(client, broker, "dead", value) is None
        assert good == [1, 2]
        assert [each.value for each in broker.records("dead")] == [b"x"]


def _late(broker: Broker) -> int:
    """Produce a timely and a late record; returns the timestamp from which both are requested."""
    now_ms = broker.clock.now_ms
    broker.produce(
        "orders",
        [Record("on time", timestamp_ms=now_ms), Record("late", timestamp_ms=now_ms - HOUR_MS)],
    )
    return now_ms - 2 * HOUR_MS


def test_late_timestamps_with_confluent_kafka() -> None:
    with Broker() as broker:
        since_ms = _late(broker)
        consumer = confluent_consumer(broker, "billing")
        found = consumer.offsets_for_times(
            [confluent_kafka.TopicPartition("orders", 0, since_ms)], 30
        )
        consumer.assign(found)
        assert [polled(consumer).value() for _ in range(2)] == [b"on time", b"late"]
        consumer.close()


def test_late_timestamps_with_kafka_python() -> None:
    with Broker() as broker:
        since_ms = _late(broker)
        consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
        partition = kafka.TopicPartition("orders", 0)
        consumer.assign([partition])
        found = consumer.offsets_for_times({partition: since_ms})
        consumer.seek(partition, found[partition].offset)
        values: list[bytes] = []
        while len(values) < 2:
            for records in consumer.poll(200).values():
                values += [record.value for record in records]
        assert values == [b"on time", b"late"]
        consumer.close()


@each_client
def test_schema_change(client: str) -> None:
    with Broker() as broker:
        broker.produce(
            "orders",
            [json.dumps({"price": 2, "count": 3}), json.dumps({"total": 7, "currency": "EUR"})],
        )
        orders = map(json.loads, read(client, broker, "orders", 2))
        assert [order.get("total") or order["price"] * order["count"] for order in orders] == [6, 7]


def test_lag_with_confluent_kafka() -> None:
    with Broker() as broker:
        broker.produce("orders", ["1", "2", "3"])
        consumer = confluent_consumer(broker, "billing")
        consumer.subscribe(["orders"])
        consumer.commit(polled(consumer), asynchronous=False)
        partition = confluent_kafka.TopicPartition("orders", 0)
        (committed,) = consumer.committed([partition], 30)
        _, end_offset = consumer.get_watermark_offsets(partition, 30)
        assert end_offset - committed.offset == 2
        consumer.close()


def test_lag_with_aiokafka() -> None:
    async def run() -> None:
        async with Broker() as broker:
            broker.produce("orders", ["1", "2", "3"])
            partition = aiokafka.TopicPartition("orders", 0)
            async with aiokafka.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="billing",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer:
                await consumer.getone()
                await consumer.commit({partition: 1})
                end_offsets = await consumer.end_offsets([partition])
                assert end_offsets[partition] - await consumer.committed(partition) == 2

    _with_aiokafka(run)


def test_slow_broker_with_kafka_python() -> None:
    with Broker(topics=["orders"]) as broker:
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            request_timeout_ms=400,
            delivery_timeout_ms=600,
            enable_idempotence=False,
        )
        with (
            broker.delay("Produce", seconds=30, required=True),
            pytest.raises(kafka.errors.KafkaTimeoutError),
        ):
            producer.send("orders", b"1").get(30)
        producer.close(2)


def test_slow_broker_with_aiokafka() -> None:
    async def run() -> None:
        async with Broker(topics=["orders"]) as broker:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=400
            )
            await producer.start()
            with (
                broker.delay("Produce", seconds=30, required=True),
                pytest.raises(aiokafka.errors.RequestTimedOutError),
            ):
                await producer.send_and_wait("orders", b"1")
            await producer.stop()

    _with_aiokafka(run)


@each_client
def test_a_slow_fetch(client: str) -> None:
    with Broker() as broker:
        broker.produce("orders", ["1"])
        with broker.delay("Fetch", 0.2, times=1, required=True):
            assert read(client, broker, "orders", 1) == [b"1"]
