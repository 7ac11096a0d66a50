"""Spark streams while their broker is killed, its segments roll, are compacted and deleted."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from compat_tests.mortal_broker import MortalBroker
from compat_tests.spark_session import spark_session
from tests.eventually import eventually
from tests.repetitions import repetitions

KILLS = repetitions("WIREKAFKA_KILLS", usual=2, thorough=10)
BETWEEN_KILLS = 2000
"""Records that both streams read between two kills; after three kills retention deletes some."""
RECORD_BYTES = 1000
AHEAD = 3000
"""The producer waits when the slower stream is this many records behind: so retention, which
leaves more than that, deletes only what was read."""
KEYS = 20
PARTITIONS = 2
SOURCE_CONFIG = {
    "segment.bytes": str(1 << 20),
    "retention.bytes": str(2 << 20),
    "retention.ms": "-1",
    "cleanup.policy": "compact,delete",
    "min.cleanable.dirty.ratio": "0.01",
}
BROKER_SETTINGS = ("log.retention.check.interval.ms=500", "log.cleaner.backoff.ms=500")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # A task may fail while the broker is down: it is retried, as on a cluster.
    with spark_session("local[2,8]") as session:
        yield session


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalBroker]:
    broker = MortalBroker(tmp_path / "data", *BROKER_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


class Feed(threading.Thread):
    """Writes numbered records, never far ahead of their readers; keys are all distinct."""

    def __init__(self, bootstrap: str, topic: str):
        super().__init__(daemon=True)
        self.sent = 0
        self.read = 0
        self.lost: list[str] = []
        self.stopping = threading.Event()
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        for number in itertools.count():
            while self.sent - self.read > AHEAD and not self.stopping.is_set():
                self._producer.poll(0.02)
            if self.stopping.is_set():
                break
            # The logical key is a prefix of the record key, which is unique for compaction.
            key = f"{number % KEYS}:{number}"
            value = str(number).ljust(RECORD_BYTES, ".")
            place = number % KEYS % PARTITIONS
            self._producer.produce(
                self._topic, value, key, partition=place, on_delivery=self._delivered
            )
            self.sent = number + 1
            if number % 100 == 0:
                self._producer.poll(0.05)
        assert self._producer.flush(120) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.lost.append(error.str())


def start(spark: SparkSession, bootstrap: str, source: str, sink: dict[str, str]) -> StreamingQuery:
    """Copy a topic, its numbers and logical keys, to a sink."""
    number = f.trim(f.translate(f.col("value").cast("string"), ".", " "))
    key = f.split(f.col("key").cast("string"), ":")[0]
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .load()
        .select(key.alias("key"), number.alias("value"))
        .writeStream.format(sink.pop("format"))
        .options(**sink)
        .trigger(processingTime="200 milliseconds")
        .start()
    )


def records_read(query: StreamingQuery) -> int:
    """How many records the committed batches of a query have read."""
    if not query.isActive:
        query.awaitTermination()  # Raises what ended it.
    ends = [json.loads(progress.sources[0].endOffset) for progress in query.recentProgress]
    return max((sum(end["source"].values()) for end in ends if end), default=0)


@pytest.mark.timeout(900)
def test_streams_survive_kills_rolls_retention_and_compaction(
    spark: SparkSession, mortal: MortalBroker, tmp_path: Path
) -> None:
    bootstrap = mortal.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = [
        NewTopic("source", PARTITIONS, 1, config=SOURCE_CONFIG),
        NewTopic("target", PARTITIONS, 1),
    ]
    for made in admin.create_topics(new).values():
        made.result(30)
    files, checkpoints = str(tmp_path / "files"), str(tmp_path / "checkpoints")
    to_files = {"format": "parquet", "path": files, "checkpointLocation": f"{checkpoints}/f"}
    to_topic = {"format": "kafka", "kafka.bootstrap.servers": bootstrap, "topic": "target"}
    to_topic["checkpointLocation"] = f"{checkpoints}/k"
    queries = [start(spark, bootstrap, "source", sink) for sink in (to_files, to_topic)]
    feed = Feed(bootstrap, "source")

    def progress() -> int:
        feed.read = min(map(records_read, queries))
        return feed.read

    feed.start()
    try:
        for kill in range(KILLS):
            wanted = progress() + BETWEEN_KILLS
            eventually(lambda wanted=wanted: progress() >= wanted, timeout_s=180)
            mortal.kill()
            time.sleep(kill % 3 * 0.3)
            mortal.start()
        wanted = progress() + BETWEEN_KILLS
        eventually(lambda: progress() >= wanted, timeout_s=180)
        feed.stopping.set()
        feed.join(150)
        eventually(lambda: progress() >= feed.sent, timeout_s=180)
    finally:
        feed.stopping.set()
        for query in queries:
            query.stop()
    assert feed.lost == []
    written = sorted(int(row.value) for row in spark.read.parquet(files).collect())
    assert written == list(range(feed.sent)), "each record exactly once in the files"
    check_target(bootstrap, feed.sent)
    low, high = source_bounds(bootstrap)
    assert low > 0 and high == feed.sent, "retention deleted behind the streams"


def check_target(bootstrap: str, count: int) -> None:
    """Every record at least once, and in order for each key, repeated batches aside."""
    by_key: dict[bytes, list[int]] = {}
    for partition in range(PARTITIONS):
        for message in read_all(bootstrap, "target", partition):
            by_key.setdefault(message.key(), []).append(int(message.value()))
    found = {number for numbers in by_key.values() for number in numbers}
    assert found == set(range(count)), "the sink has every record"
    for key, numbers in by_key.items():
        firsts = list(dict.fromkeys(numbers))
        assert firsts == sorted(firsts), f"key {key!r} is in order"


def read_all(bootstrap: str, topic: str, partition: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker"})
    place = TopicPartition(topic, partition, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.assign([place])
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while (not found or found[-1].offset() < end - 1) and time.monotonic() < deadline:
        found += [message for message in consumer.consume(5000, 1.0) if not message.error()]
    consumer.close()
    return found


def source_bounds(bootstrap: str) -> tuple[int, int]:
    """The sums of the partitions' log start offsets and end offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker"})
    bounds = [
        consumer.get_watermark_offsets(TopicPartition("source", partition), timeout=30)
        for partition in range(PARTITIONS)
    ]
    consumer.close()
    return sum(low for low, _ in bounds), sum(high for _, high in bounds)


def test_latest_offsets_never_move_back_over_kills(
    spark: SparkSession, mortal: MortalBroker, tmp_path: Path
) -> None:
    bootstrap = mortal.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("source", 1, 1)])["source"].result(30)
    sink = {"format": "noop", "checkpointLocation": str(tmp_path / "checkpoint")}
    query = start(spark, bootstrap, "source", sink)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    latest: list[int] = []
    sent = 0
    try:
        for _ in range(3):
            for _ in range(50):
                producer.produce("source", str(sent), f"0:{sent}")
                sent += 1
            assert producer.flush(60) == 0

            def caught_up(sent: int = sent) -> bool:
                latest[:] = [
                    place["0"]
                    for progress in query.recentProgress
                    for place in json.loads(progress.sources[0].latestOffset or "{}").values()
                ]
                return query.exception() is None and max(latest, default=0) == sent

            eventually(caught_up, timeout_s=120)
            assert latest == sorted(latest)
            mortal.kill()
            mortal.start()
        assert query.isActive
    finally:
        query.stop()
