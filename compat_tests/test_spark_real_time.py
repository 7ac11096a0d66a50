"""Spark's real-time mode (since 4.3 in Python): records pass within a long-running batch.

The connector keeps one fetch loop per partition going, so results come within milliseconds
instead of at the end of a micro-batch.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from compat_tests.conftest import RunningBroker

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(SPARK < (4, 3), reason="PySpark has real-time mode since 4.3")

BATCH = "5 seconds"
WARM_UP = 20
RECORDS = 100


@pytest.fixture(params=["broker", "apache_kafka"])
def engine(request: pytest.FixtureRequest) -> RunningBroker:
    """wirekafka, and then Apache Kafka in the same session of Spark."""
    found: RunningBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def topics(engine: RunningBroker, unique: str) -> tuple[str, str]:
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    names = f"{unique}-in", f"{unique}-out"
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(30)
    return names


@pytest.fixture
def query(
    spark: SparkSession, engine: RunningBroker, topics: tuple[str, str], tmp_path: Path
) -> Iterator[StreamingQuery]:
    """Converts the records of one topic to upper case, and writes them to another."""
    source, target = topics
    address = {"kafka.bootstrap.servers": engine.bootstrap}
    spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "5000ms")
    read = (
        spark.readStream.format("kafka")
        .options(**address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    upper = read.select(f.upper(f.col("value").cast("string")).alias("value"))
    started = (
        upper.writeStream.format("kafka")
        .options(**address)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(realTime=BATCH)
        .start()
    )
    yield started
    started.stop()


def test_records_pass_before_their_batch_ends(
    query: StreamingQuery, engine: RunningBroker, topics: tuple[str, str]
) -> None:
    source, target = topics
    producer = Producer({"bootstrap.servers": engine.bootstrap, "linger.ms": 0})
    consumer = Consumer(
        {"bootstrap.servers": engine.bootstrap, "group.id": source, "fetch.wait.max.ms": 10}
    )
    consumer.assign([TopicPartition(target, 0, 0)])
    waited_ms = []
    seen = []
    for number in range(WARM_UP + RECORDS):
        sent = time.monotonic()
        producer.produce(source, b"record %d" % number, partition=0)
        producer.flush(30)
        seen.append(_next(consumer, query))
        waited_ms.append((time.monotonic() - sent) * 1000)
    consumer.close()
    assert seen == [b"RECORD %d" % number for number in range(WARM_UP + RECORDS)]
    measured = sorted(waited_ms[WARM_UP:])
    median_ms, high_ms = measured[RECORDS // 2], measured[RECORDS * 9 // 10]
    print(
        f"Spark {pyspark.__version__} real-time mode, "
        f"{'Apache Kafka' if engine.is_reference else 'wirekafka'}, end to end: "
        f"median {median_ms:.1f} ms, 90th percentile {high_ms:.1f} ms"
    )
    # A micro-batch of this trigger would take seconds for each.
    assert median_ms < 1000


def _next(consumer: Consumer, query: StreamingQuery) -> bytes:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            return bytes(message.value())
        failure = query.exception()
        if failure is not None:
            raise AssertionError(str(failure)[-2000:])
    raise AssertionError("nothing came within a minute")
