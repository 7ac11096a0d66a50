"""Logs whose segments are preallocated survive a kill, and change hands, in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests import apache_kafka
from compat_tests.mortal_broker import MortalBroker

PREALLOCATED = "log.preallocate=true"
SEGMENT_BYTES = 1 << 24


def produce(bootstrap: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(30) == 0


def read(bootstrap: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": bootstrap, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    found = [message.value().decode() for message in consumer.consume(count, timeout=30)]
    consumer.close()
    return found


def size_bytes(data: Path) -> int:
    return (data / "t-0" / f"{0:020d}.log").stat().st_size


@pytest.mark.timeout(180)
def test_preallocated_logs_of_killed_brokers_change_hands(tmp_path: Path) -> None:
    settings = f"{PREALLOCATED}\nlog.segment.bytes={SEGMENT_BYTES}\n"
    port, command = apache_kafka.prepare(
        tmp_path, apache_kafka.SMALL_JVM, apache_kafka.SMALL_CLEANER + settings
    )
    process = apache_kafka.started(command, tmp_path)
    try:
        apache_kafka.await_accepting(process, tmp_path, port)
        produce(f"127.0.0.1:{port}", ["first", "second"])
    finally:
        process.kill()
        process.wait()
    data = tmp_path / "data"
    # Kafka's file has zeros behind its records.
    assert size_bytes(data) == SEGMENT_BYTES
    ours = MortalBroker(data, PREALLOCATED, f"log.segment.bytes={SEGMENT_BYTES}")
    try:
        ours.start()
        assert read(ours.bootstrap, 2) == ["first", "second"]
        assert size_bytes(data) < 1000
        produce(ours.bootstrap, ["third"])
        ours.kill()
        ours.start()
    finally:
        ours.stop()
    assert size_bytes(data) < 1000
    with apache_kafka.apache_kafka_on([data], tmp_path) as bootstrap:
        produce(bootstrap, ["fourth"])
        assert read(bootstrap, 4) == ["first", "second", "third", "fourth"]
