"""Three stock clients behind one interface, for tests of faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

from tests.eventually import eventually
from wirekafka import Broker

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
TIMEOUT_S = 45  # For a busy machine; usually nothing waits that long.


def send(client: str, broker: Broker, topic: str, value: bytes = b"v") -> str | None:
    """Produce one record with acks=all; returns the name of the client's final error."""
    return _SENDERS[client](broker, topic, value)


def read(client: str, broker: Broker, topic: str, count: int, group: str | None = None) -> Any:
    """Consume records from the beginning; returns their values, or the name of an error."""
    return _READERS[client](broker, topic, count, group)


def confluent_producer(broker: Broker, **options: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 20,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 20,
            "linger.ms": 0,
            "message.timeout.ms": 15_000,
            "log_level": 0,
            "topic.metadata.refresh.fast.interval.ms": 20,
            **options,
        }
    )


def confluent_consumer(broker: Broker, group: str, **options: Any) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 20,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 20,
            "fetch.error.backoff.ms": 10,
            "enable.auto.commit": False,
            "log_level": 0,
            "heartbeat.interval.ms": 100,
            "topic.metadata.refresh.fast.interval.ms": 20,
            **options,
        }
    )


def broker_assigned_consumer(
    broker: Broker, group: str, **options: Any
) -> confluent_kafka.Consumer:
    """A consumer with `group.protocol=consumer`: the broker sets its heartbeats (KIP-848)."""
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **options,
        }
    )


def deliver(producer: confluent_kafka.Producer, topic: str, value: bytes = b"v") -> str | None:
    """Produce and wait; the name of the error."""
    reported: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, message: reported.append(error))
    producer.flush(TIMEOUT_S)
    assert reported, "no delivery report"
    return reported[0].name() if reported[0] is not None else None


def polled(consumer: confluent_kafka.Consumer, timeout_s: float = TIMEOUT_S) -> Any:
    """The next record or error."""
    message = consumer.poll(timeout_s)
    assert message is not None, "nothing came"
    return message


def until(consumer: confluent_kafka.Consumer, condition: Callable[[], object]) -> None:
    """Poll until the condition holds."""

    def polled() -> bool:
        consumer.poll(0.02)
        return bool(condition())

    eventually(polled, timeout_s=TIMEOUT_S, every_s=0)


def _confluent_send(broker: Broker, topic: str, value: bytes) -> str | None:
    return deliver(confluent_producer(broker), topic, value)


def _confluent_read(broker: Broker, topic: str, count: int, group: str | None) -> Any:
    consumer = confluent_consumer(broker, group or "reader")
    try:
        if group is None:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        else:
            consumer.subscribe([topic])
        values = []
        while len(values) < count:
            message = polled(consumer)
            if message.error() is not None:
                return message.error().name()
            values.append(message.value())
        return values
    finally:
        consumer.close()


def _kafka_python_send(broker: Broker, topic: str, value: bytes) -> str | None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        acks="all",
        retries=20,
        retry_backoff_ms=10,
        enable_idempotence=False,
        reconnect_backoff_ms=10,
    )
    try:
        producer.send(topic, value).get(TIMEOUT_S)
    except kafka.errors.KafkaError as error:
        return _python_name(error)
    finally:
        producer.close(2)
    return None


def _kafka_python_read(broker: Broker, topic: str, count: int, group: str | None) -> Any:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=10,
        heartbeat_interval_ms=100,
    )
    try:
        if group is None:
            consumer.assign([kafka.TopicPartition(topic, 0)])
        else:
            # It may join before it knows the partitions, and then ignore its assignment.
            consumer.partitions_for_topic(topic)
            consumer.subscribe([topic])
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count and time.monotonic() < deadline:
            for records in consumer.poll(200).values():
                values += [record.value for record in records]
        return values
    except kafka.errors.KafkaError as error:
        return _python_name(error)
    finally:
        consumer.close(autocommit=False)


def _aiokafka_send(broker: Broker, topic: str, value: bytes) -> str | None:
    async def run() -> str | None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, acks="all", retry_backoff_ms=10
        )
        try:
            await producer.start()
            await asyncio.wait_for(producer.send_and_wait(topic, value), TIMEOUT_S)
        except aiokafka.errors.KafkaError as error:
            return _python_name(error)
        finally:
            await producer.stop()
        return None

    return asyncio.run(run())


def _aiokafka_read(broker: Broker, topic: str, count: int, group: str | None) -> Any:
    async def run() -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=10,
            heartbeat_interval_ms=100,
        )
        if group is None:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        await consumer.start()
        try:
            return [
                (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(count)
            ]
        except aiokafka.errors.KafkaError as error:
            return _python_name(error)
        finally:
            await consumer.stop()

    return asyncio.run(run())


def _python_name(error: Exception) -> str:
    return type(error).__name__


_SENDERS: dict[str, Callable[[Broker, str, bytes], str | None]] = {
    "confluent-kafka": _confluent_send,
    "kafka-python": _kafka_python_send,
    "aiokafka": _aiokafka_send,
}
_READERS: dict[str, Callable[[Broker, str, int, str | None], Any]] = {
    "confluent-kafka": _confluent_read,
    "kafka-python": _kafka_python_read,
    "aiokafka": _aiokafka_read,
}

Values = Sequence[bytes]
