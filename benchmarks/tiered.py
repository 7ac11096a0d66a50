"""Cold reads of a tiered topic beside Apache Kafka: `python -m benchmarks.tiered --gib 1`.

Both brokers tier a topic of that size on the same disk, in the layout of LocalTieredStorage,
and keep `--local-mb` of it. Then they take turns: librdkafka reads all that is only in the
tier, and Spark's `kafka` format reads the whole topic. Before each turn the files of the tier leave
the page cache. `--gib 10` needs 40 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import START_SCRIPT_JVM
from compat_tests.mortal_broker import MortalBroker
from compat_tests.tiered import EARLIEST_LOCAL, offset, settings, tiered_kafka
from tests.eventually import eventually

_TOPIC = "facts"
_RECORD_BYTES = 10_000
_SEGMENT_BYTES = 64 << 20
_COPY_LIMIT_S = 1_800


@dataclass
class Engine:
    """A running broker, its tier, and what was measured."""

    name: str
    bootstrap: str
    tier: Path
    figures: dict[str, list[float]] = field(default_factory=dict)

    def fill(self, records: int, local_bytes: int) -> None:
        """Append the records, and wait until only the newest of them are on the broker's disk."""
        configs = {
            "remote.storage.enable": "true",
            "segment.bytes": str(_SEGMENT_BYTES),
            "local.retention.bytes": str(local_bytes),
            "local.retention.ms": "-1",
            "retention.ms": "-1",
            "file.delete.delay.ms": "0",
        }
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(_TOPIC, 1, 1, config=configs)])[_TOPIC].result()
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        values = [os.urandom(_RECORD_BYTES) for _ in range(64)]
        for number in range(records):
            while True:
                try:
                    producer.produce(_TOPIC, values[number % len(values)])
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(600) == 0
        kept = (local_bytes + 2 * _SEGMENT_BYTES) // _RECORD_BYTES
        eventually(lambda: self.local_start() >= records - kept, timeout_s=_COPY_LIMIT_S)

    def local_start(self) -> int:
        """The first offset that is on the broker's disk."""
        return offset(self.bootstrap, _TOPIC, EARLIEST_LOCAL)[2]

    def drop_page_cache(self) -> None:
        """Let the next turn read the tier from the disk."""
        for path in self.tier.rglob("*"):
            if path.is_file() and hasattr(os, "posix_fadvise"):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)

    def read_tier(self) -> float:
        """MB/s of librdkafka from the first offset up to the first local one."""
        end_offset, count = self.local_start(), 0
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "queued.min.messages": 10_000_000,
                "queued.max.messages.kbytes": 1 << 20,
            }
        )
        start = time.perf_counter()
        consumer.assign([TopicPartition(_TOPIC, 0, 0)])
        at = 0
        while at < end_offset:
            for message in consumer.consume(1_000, 1):
                assert not message.error(), message.error()
                at, count = message.offset() + 1, count + 1
        elapsed_s = time.perf_counter() - start
        consumer.close()
        return count * _RECORD_BYTES / 1e6 / elapsed_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gib", type=float, default=1, help="the size of the topic")
    parser.add_argument("--local-mb", type=int, default=200, help="how much of it stays local")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="a disk for the data; by default /tmp")
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    records = int(given.gib * (1 << 30)) // _RECORD_BYTES
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.directory)))
        engines = [
            stack.enter_context(_wirekafka(scratch / "w")),
            stack.enter_context(_apache_kafka(scratch / "k")),
        ]
        cases: dict[str, Callable[[Engine], float]] = {"librdkafka, tier": Engine.read_tier}
        if not given.without_spark:
            cases["Spark, whole topic"] = stack.enter_context(_spark(records))
        for engine in engines:
            start = time.perf_counter()
            engine.fill(records, given.local_mb * 1_000_000)
            print(
                f"{engine.name}: filled and tiered in {time.perf_counter() - start:.0f} s",
                flush=True,
            )
        _measure(engines, cases, given.turns)


def _measure(
    engines: list[Engine], cases: dict[str, Callable[[Engine], float]], turns: int
) -> None:
    for case, run in cases.items():
        for engine in engines:
            run(engine)  # A first turn, which warms up clients, does not count.
        for turn in range(turns):
            for engine in engines[:: -1 if turn % 2 else 1]:
                engine.drop_page_cache()
                rate = run(engine)
                engine.figures.setdefault(case, []).append(rate)
                print(f"{case}: {engine.name} {rate:.0f} MB/s in turn {turn + 1}", flush=True)
        ours, theirs = (statistics.median(engine.figures[case]) for engine in engines)
        print(f"{case}: medians {ours:.0f} and {theirs:.0f} MB/s, {ours / theirs:.2f} times")


@contextmanager
def _wirekafka(directory: Path) -> Iterator[Engine]:
    directory.mkdir()
    tier = directory / "tier"
    options = (f"{name}={value}" for name, value in settings(tier).items())
    broker = MortalBroker(directory / "data", *options)
    broker.start()
    try:
        yield Engine("wirekafka", broker.bootstrap, tier)
    finally:
        broker.stop()


@contextmanager
def _apache_kafka(directory: Path) -> Iterator[Engine]:
    tier = directory / "tier"
    directory.mkdir()
    tier.mkdir()
    with tiered_kafka(directory / "broker", tier, jvm=START_SCRIPT_JVM) as bootstrap:
        yield Engine("Apache Kafka", bootstrap, tier)


@contextmanager
def _spark(records: int) -> Iterator[Callable[[Engine], float]]:
    """Yields what counts the records of the whole topic by Spark, and returns MB/s."""
    from spark_examples.session import kafka_session

    session = kafka_session("benchmarks-tiered", **{"spark.driver.memory": "2g"})

    def read(engine: Engine) -> float:
        start = time.perf_counter()
        rows = (
            session.read.format("kafka")
            .option("kafka.bootstrap.servers", engine.bootstrap)
            .option("subscribe", _TOPIC)
            .load()
        )
        found = rows.selectExpr("count(*)", "sum(length(value))").first()
        assert found is not None
        assert tuple(found) == (records, records * _RECORD_BYTES), found
        return records * _RECORD_BYTES / 1e6 / (time.perf_counter() - start)

    try:
        yield read
    finally:
        session.stop()


if __name__ == "__main__":
    main()
