"""Checks of a cluster after failures: acknowledged records, their order, equal replicas."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.cluster import Cluster
from compat_tests.reading import read_to_end
from tests.eventually import eventually
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
    # A leader that is cut off from the controllers does not learn that it is no longer one, Apache
    # Kafka's neither: it lets requests time out, after which librdkafka asks the same one again.
    "topic.metadata.refresh.interval.ms": 2_000,
    # With several, a later one may arrive at a new leader before an earlier one that is repeated:
    # after OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka begins a new producer epoch, and sends records
    # again under it that are stored (its issue 4953; the Java producer does not).
    "max.in.flight.requests.per.connection": 1,
}


@dataclass
class Acknowledged:
    """The values that were acknowledged, by partition, in the order in which they were sent."""

    values: dict[int, list[int]] = field(default_factory=dict)
    offsets: dict[int, list[int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Workload:
    """An idempotent producer that sends ascending numbers to every partition until `stop`.

    They have leading zeros, up to a random number of digits.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        rate_per_s: int = 2_000,
        most_digits: int = 0,
    ) -> None:
        self.acknowledged = Acknowledged()
        self._random = Random(0)
        self._most_digits = most_digits
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
        """Wait until `more` further records are acknowledged, some of them in each partition.

        Raises AssertionError if they are not.
        """
        wanted, before = self.count + more, self._counts()
        deadline = time.monotonic() + _PATIENCE_S
        while self.count < wanted or not all(map(int.__lt__, before, self._counts())):
            assert time.monotonic() < deadline, f"{self.count} of {wanted}: {self._counts()}"
            assert not self.acknowledged.failed, self.acknowledged.failed[0]
            time.sleep(_POLL_S)

    def stop(self) -> Acknowledged:
        """Stop sending, wait for all acknowledgements, and return them."""
        self._should_stop.set()
        self._thread.join()
        left = self._producer.flush(_PATIENCE_S)
        assert left == 0, f"{left} records were neither acknowledged nor refused"
        return self.acknowledged

    def _counts(self) -> list[int]:
        """How many records were acknowledged in each partition."""
        values = self.acknowledged.values
        return [len(values.get(index, ())) for index in range(self._partitions)]

    def _run(self) -> None:
        try:
            self._send_until_stopped()
        except Exception as error:
            self.acknowledged.failed.append(f"the thread of the producer ended: {error!r}")

    def _send_until_stopped(self) -> None:
        number = 0
        while not self._should_stop.is_set():
            for partition in range(self._partitions):
                self._send(partition, number)
            number += 1
            self._producer.poll(0)
            self._should_stop.wait(self._pause_s)

    def _send(self, partition: int, number: int) -> None:
        value = (b"%d" % number).zfill(self._random.randint(0, self._most_digits))
        while not self._should_stop.is_set():
            try:
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self._delivered
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
        assert partition is not None and value is not None
        self.acknowledged.values.setdefault(partition, []).append(int(value))
        # Unknown where a batch was sent again that had been appended before.
        self.acknowledged.offsets.setdefault(partition, []).append(-1 if offset is None else offset)


def audit(cluster: Cluster, topic: str, acknowledged: Acknowledged) -> None:
    """Nothing failed or was lost, and all replicas are in sync and equal."""
    assert not acknowledged.failed, acknowledged.failed[:3]
    partitions = len(acknowledged.values)
    assert_kept(acknowledged, drained(cluster.bootstrap, topic, partitions))
    await_full_isr(cluster, topic)
    directories = [node.data for node in cluster.brokers()]
    names = [f"{topic}-{index}" for index in range(partitions)]
    compared = eventually(lambda: assert_equal_replicas(directories, names), timeout_s=60)
    assert compared > partitions


def await_full_isr(cluster: Cluster, topic: str) -> None:
    """Wait until every replica of a topic is in sync, as every running broker reports it."""

    def is_full() -> bool:
        for node in cluster.brokers():
            if not node.is_running:
                continue
            admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
            if any(len(each.isrs) < len(each.replicas) for each in partitions.values()):
                return False
        return True

    eventually(is_full, timeout_s=90)


def drained(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, int]]]:
    """(offset, value) of every record below the end, by partition; read_committed."""
    found: dict[int, list[tuple[int, int]]] = {index: [] for index in range(partitions)}
    places = [TopicPartition(topic, index, 0) for index in found]
    for message in read_to_end(bootstrap, places, timeout_s=_PATIENCE_S):
        found[message.partition()].append((message.offset(), int(message.value())))
    return found


def assert_kept(acknowledged: Acknowledged, found: dict[int, list[tuple[int, int]]]) -> None:
    """Each record is there once, in order, and at its offset if it was acknowledged."""
    for partition, values in acknowledged.values.items():
        read = [value for _, value in found[partition]]
        missing = set(values).difference(read)
        assert not missing, f"partition {partition} lost {len(missing)}: {sorted(missing)[:5]}"
        assert read == list(range(len(read))), f"partition {partition}: out of order or twice"
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
    """The replicas are byte-identical; returns the number of batches compared.

    `directories` are the brokers' log directories, `partitions` the names of their folders.
    """
    compared = 0
    for name in partitions:
        replicas = {
            str(each): replica_batches(each / name)
            for each in directories
            if (each / name).is_dir()
        }
        assert len(replicas) > 1, f"{name} has {len(replicas)} replicas"
        (first, wanted), *others = replicas.items()
        for other, held in others:
            differing = [
                offset
                for offset in sorted({*wanted, *held})
                if wanted.get(offset) != held.get(offset)
            ]
            assert not differing, f"{name} of {first} and {other} differ at {differing[:5]}"
        compared += len(wanted)
    return compared
