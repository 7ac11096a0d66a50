"""Checks of a cluster after failures: acknowledged records, their order, equal replicas."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from wirekafka.codec.batch import batches

_POLL_S = 0.05
_PATIENCE_S = 120.0
_CONFIG = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 2,
    "delivery.timeout.ms": 110_000,
    "message.timeout.ms": 110_000,
    "request.timeout.ms": 5_000,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 500,
}


@dataclass
class Acknowledged:
    """The values that were acknowledged, by partition, in the order in which they were sent."""

    values: dict[int, list[int]] = field(default_factory=dict)
    offsets: dict[int, list[int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Workload:
    """An idempotent producer that sends ascending numbers to every partition until `stop`."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, rate_per_s: int = 2_000
    ) -> None:
        self.acknowledged = Acknowledged()
        self._topic = topic
        self._partitions = partitions
        self._pause_s = partitions / rate_per_s
        self._producer = Producer({**_CONFIG, "bootstrap.servers": bootstrap})
        self._should_stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *error: object) -> None:
        self._should_stop.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(map(len, self.acknowledged.values.values()))

    def goes_on(self, more: int = 100) -> None:
        """Wait until `more` further records are acknowledged; raises AssertionError if not."""
        wanted = self.count + more
        deadline = time.monotonic() + _PATIENCE_S
        while self.count < wanted:
            assert time.monotonic() < deadline, f"{self.count} of {wanted}"
            assert not self.acknowledged.failed, self.acknowledged.failed[0]
            time.sleep(_POLL_S)

    def stop(self) -> Acknowledged:
        """Stop sending, wait for all acknowledgements, and return them."""
        self._should_stop.set()
        self._thread.join()
        left = self._producer.flush(_PATIENCE_S)
        assert left == 0, f"{left} records were neither acknowledged nor refused"
        return self.acknowledged

    def _run(self) -> None:
        number = 0
        while not self._should_stop.is_set():
            for partition in range(self._partitions):
                self._send(partition, number)
            number += 1
            self._producer.poll(0)
            self._should_stop.wait(self._pause_s)

    def _send(self, partition: int, number: int) -> None:
        while not self._should_stop.is_set():
            try:
                self._producer.produce(
                    self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(_POLL_S)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.acknowledged.failed.append(str(error))
            return
        partition, value, offset = message.partition(), message.value(), message.offset()
        assert partition is not None and value is not None and offset is not None
        self.acknowledged.values.setdefault(partition, []).append(int(value))
        self.acknowledged.offsets.setdefault(partition, []).append(offset)


def drained(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, int]]]:
    """(offset, value) of every record below the end, by partition; read_committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    found: dict[int, list[tuple[int, int]]] = {index: [] for index in range(partitions)}
    try:
        ends = {
            index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=60)[1]
            for index in range(partitions)
        }
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        deadline = time.monotonic() + _PATIENCE_S
        while any(
            consumer.position([TopicPartition(topic, index)])[0].offset < end
            for index, end in ends.items()
            if end > 0
        ):
            assert time.monotonic() < deadline, (ends, {key: len(v) for key, v in found.items()})
            for message in consumer.consume(5_000, timeout=0.5):
                assert message.error() is None, message.error()
                found[message.partition()].append((message.offset(), int(message.value())))
    finally:
        consumer.close()
    return found


def assert_kept(acknowledged: Acknowledged, found: dict[int, list[tuple[int, int]]]) -> None:
    """Every acknowledged record is there once, in order, at its offset; others at most once."""
    for partition, values in acknowledged.values.items():
        read = [value for _, value in found[partition]]
        assert read == sorted(set(read)), f"partition {partition}: out of order or twice"
        missing = set(values).difference(read)
        assert not missing, f"partition {partition} lost {len(missing)}: {sorted(missing)[:5]}"
        by_value = {value: offset for offset, value in found[partition]}
        for value, offset in zip(values, acknowledged.offsets[partition], strict=True):
            assert offset < 0 or by_value[value] == offset, (partition, value, offset)


def replica_batches(directory: Path) -> dict[int, bytes]:
    """The batches of one replica's directory by base offset."""
    found: dict[int, bytes] = {}
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for position, header in batches(data):
            found[header.base_offset] = data[position : position + header.size_bytes]
    return found


def assert_equal_replicas(directories: Sequence[Path], partitions: Iterable[str]) -> int:
    """The replicas of stopped brokers are byte-identical; returns the number of batches compared.

    `directories` are the brokers' log directories, `partitions` the names of their folders. A
    replica may begin later than another (retention) and must not end earlier.
    """
    compared = 0
    for name in partitions:
        replicas = {
            str(each): replica_batches(each / name)
            for each in directories
            if (each / name).is_dir()
        }
        assert len(replicas) > 1, f"{name} has {len(replicas)} replicas"
        begin = max(min(held, default=0) for held in replicas.values())
        (first, wanted), *others = replicas.items()
        wanted = {offset: batch for offset, batch in wanted.items() if offset >= begin}
        for other, held in others:
            held = {offset: batch for offset, batch in held.items() if offset >= begin}
            differing = [
                offset
                for offset in sorted({*wanted, *held})
                if wanted.get(offset) != held.get(offset)
            ]
            assert not differing, f"{name} of {first} and {other} differ at {differing[:5]}"
        compared += len(wanted)
    return compared
