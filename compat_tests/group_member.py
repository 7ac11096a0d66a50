"""Runs a consumer of one of the Python libraries as a process, for tests to stop and kill.

    python -m compat_tests.group_member LIBRARY BOOTSTRAP TOPIC GROUP

Each line of its output is a list of [partition, offset, value], written before it is committed.
On SIGTERM it leaves its group.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any

SESSION_MS = 6000
HEARTBEAT_MS = 500
BATCH = 200

_leaving = False


def _leave(*_: object) -> None:
    global _leaving
    _leaving = True


def report(records: Iterable[tuple[int, int, bytes]]) -> None:
    seen = [[partition, offset, value.decode()] for partition, offset, value in records]
    if seen:
        print(json.dumps(seen), flush=True)


def confluent(bootstrap: str, topic: str, group: str) -> None:
    _confluent(
        bootstrap,
        topic,
        group,
        {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "range",
        },
    )


def confluent_assigned(bootstrap: str, topic: str, group: str) -> None:
    """A member whose partitions the broker assigns (KIP-848)."""
    _confluent(bootstrap, topic, group, {"group.protocol": "consumer"})


def _confluent(bootstrap: str, topic: str, group: str, settings: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    while not _leaving:
        messages = [each for each in consumer.consume(BATCH, 0.1) if each.error() is None]
        report((each.partition(), each.offset(), each.value()) for each in messages)
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as refused:
                # The partitions' new owner reads these records again.
                print(refused, file=sys.stderr)
    consumer.close()


def kafka_python(bootstrap: str, topic: str, group: str) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_records=BATCH,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    while not _leaving:
        polled: dict[Any, list[Any]] = consumer.poll(timeout_ms=100)
        records = [each for batch in polled.values() for each in batch]
        report((each.partition, each.offset, each.value) for each in records)
        if records:
            try:
                consumer.commit()
            except KafkaError as refused:
                print(refused, file=sys.stderr)
    consumer.close(autocommit=False)


def aiokafka(bootstrap: str, topic: str, group: str) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, group))


async def _aiokafka(bootstrap: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    await consumer.start()
    while not _leaving:
        polled = await consumer.getmany(timeout_ms=100, max_records=BATCH)
        records = [each for batch in polled.values() for each in batch]
        report((each.partition, each.offset, each.value) for each in records)
        if records:
            try:
                await consumer.commit()
            except KafkaError as refused:
                print(refused, file=sys.stderr)
    await consumer.stop()


LIBRARIES = {each.__name__: each for each in (confluent, kafka_python, aiokafka)}
"""Members of the classic protocol."""
MEMBERS = LIBRARIES | {confluent_assigned.__name__: confluent_assigned}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    MEMBERS[sys.argv[1]](*sys.argv[2:])
