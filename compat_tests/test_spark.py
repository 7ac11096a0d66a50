"""Spark's own connector: every way to read, the stream and the sink."""

import contextlib
import inspect
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from compat_tests.conftest import NewTopicName
from compat_tests.spark_session import progress
from tests.eventually import eventually
from tests.repetitions import swept

Reader = Callable[..., DataFrame]
Stream = Callable[..., Any]

DEPRECATED = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


@pytest.fixture(
    params=swept(
        [pytest.param("false", id="admin-offsets"), pytest.param("true", id="consumer-offsets")],
        every=2,
    )
)
def either_offset_reader(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """The test runs with Spark's new and with its old way of fetching offsets."""
    before = spark.conf.get(DEPRECATED, "false")
    spark.conf.set(DEPRECATED, request.param)
    yield
    spark.conf.set(DEPRECATED, before)


@pytest.fixture
def batch(spark: SparkSession, bootstrap: str) -> Reader:
    """`batch(subscribe=topic, ...)`: options of a batch read; None leaves one out."""

    def read(**options: Any) -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    return read


@pytest.fixture
def stream(
    spark: SparkSession, bootstrap: str, unique: str, tmp_path: Path
) -> Iterator[Callable[..., Any]]:
    """`stream(subscribe=topic, ...)` runs to the present end of the topic; rows go to a file sink.

    Called again, it continues from its checkpoint. Returns the query and all its rows so far.
    """

    def run(**options: Any) -> tuple[Any, list[Any]]:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        for name, value in ({"startingOffsets": "earliest"} | options).items():
            reader = reader.option(name.replace("__", "."), value)
        columns = ("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        query = (
            reader.load()
            .selectExpr(*columns)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "rows"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert not query.isActive
        rows = spark.read.parquet(str(tmp_path / "rows"))
        return query, sorted(rows.collect(), key=lambda row: (row.topic, row.partition, row.offset))

    yield run


def produce(bootstrap: str, topic: str, values: Sequence[str], **options: Any) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, **options.pop("with_", {})}
    )
    for value in values:
        producer.produce(topic, value, **options)
    assert producer.flush(30) == 0


def values_of(frame: DataFrame) -> list[str]:
    return [row.value for row in frame.selectExpr("CAST(value AS STRING) AS value").collect()]


def consume(bootstrap: str, group: str, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    messages: list[Any] = []
    deadline = time.monotonic() + 30
    while len(messages) < count and time.monotonic() < deadline:
        messages += consumer.consume(count, timeout=0.5)
    consumer.close()
    assert [message.error() for message in messages] == [None] * count
    return messages


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


@pytest.mark.usefixtures("either_offset_reader")
def test_a_batch_reads_from_earliest_to_latest(
    batch: Reader, new_topic: NewTopicName, bootstrap: str
) -> None:
    topic = new_topic(3)
    for partition in range(3):
        produce(bootstrap, topic, numbers(0, 100), partition=partition)
    frame = batch(subscribe=topic)
    assert frame.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    counts = {row.partition: row["count"] for row in frame.groupBy("partition").count().collect()}
    assert counts == {0: 100, 1: 100, 2: 100}


@pytest.mark.usefixtures("either_offset_reader")
def test_a_batch_reads_between_json_offsets(batch: Reader, topic: str, bootstrap: str) -> None:
    produce(bootstrap, topic, numbers(0, 50))

    def read(start: Any, end: Any) -> list[str]:
        starting = json.dumps({topic: {"0": start}})
        ending = json.dumps({topic: {"0": end}})
        return values_of(batch(subscribe=topic, startingOffsets=starting, endingOffsets=ending))

    assert read(10, 20) == numbers(10, 20)
    assert read(-2, -1) == numbers(0, 50)
    assert read(45, -1) == numbers(45, 50)


@pytest.mark.usefixtures("either_offset_reader")
def test_a_batch_reads_between_timestamps(
    batch: Reader, new_topic: NewTopicName, bootstrap: str
) -> None:
    topic = new_topic(2)
    for number in range(20):
        produce(bootstrap, topic, [str(number)], timestamp=1_000_000 + number * 1000, partition=0)
    produce(bootstrap, topic, ["other"], timestamp=1_010_500, partition=1)
    frame = batch(subscribe=topic, startingTimestamp="1005000", endingTimestamp="1011000")
    assert sorted(values_of(frame)) == sorted([*numbers(5, 11), "other"])
    by_partition = json.dumps({topic: {"0": 1_018_000, "1": 1_000_000}})
    frame = batch(subscribe=topic, startingOffsetsByTimestamp=by_partition)
    assert sorted(values_of(frame)) == ["18", "19", "other"]
    late = {"subscribe": topic, "startingTimestamp": "9000000"}
    with pytest.raises(Exception, match=r"9000000|No offset matched"):
        values_of(batch(**late))
    assert values_of(batch(**late, startingOffsetsByTimestampStrategy="latest")) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(batch: Reader, topic: str, bootstrap: str, codec: str) -> None:
    values = [f"value {number} " * 10 for number in range(200)]
    produce(bootstrap, topic, values, with_={"compression.type": codec})
    assert values_of(batch(subscribe=topic)) == values


def test_keys_nulls_headers_and_times_come_through(
    batch: Reader, topic: str, bootstrap: str
) -> None:
    headers = [("a", b"1"), ("a", b"2")]
    produce(bootstrap, topic, ["x"], headers=headers, timestamp=1_357_034_400_123)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, None, b"tombstone")
    assert producer.flush(30) == 0
    first, second = batch(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    assert (first.key, bytes(first.value)) == (None, b"x")
    assert [(header.key, bytes(header.value)) for header in first.headers] == headers
    assert (first.timestamp.timestamp(), first.timestampType) == (1_357_034_400.123, 0)
    assert (bytes(second.key), second.value, second.headers) == (b"tombstone", None, None)


@pytest.mark.usefixtures("either_offset_reader")
def test_a_pattern_and_an_assignment_choose_topics(
    batch: Reader, new_topic: NewTopicName, bootstrap: str, unique: str
) -> None:
    first, second = new_topic(2), new_topic()
    produce(bootstrap, first, ["a0"], partition=0)
    produce(bootstrap, first, ["a1"], partition=1)
    produce(bootstrap, second, ["b0"])
    assert sorted(values_of(batch(subscribePattern=f"{unique}-.*"))) == ["a0", "a1", "b0"]
    assert sorted(values_of(batch(subscribe=f"{first},{second}"))) == ["a0", "a1", "b0"]
    assigned = json.dumps({first: [1], second: [0]})
    assert sorted(values_of(batch(assign=assigned))) == ["a1", "b0"]


def test_min_partitions_splits_the_read(
    batch: Reader, new_topic: NewTopicName, bootstrap: str
) -> None:
    topic = new_topic(2)
    for partition in range(2):
        produce(bootstrap, topic, numbers(0, 500), partition=partition)
    frame = batch(subscribe=topic, minPartitions=8)
    assert frame.rdd.getNumPartitions() >= 8
    assert frame.count() == 1000


def test_a_missing_topic_is_named(batch: Reader, unique: str) -> None:
    with pytest.raises(Exception, match=r"UnknownTopicOrPartition|does not exist"):
        batch(subscribe=unique).count()


@pytest.mark.usefixtures("either_offset_reader")
def test_a_stream_takes_what_is_available_and_goes_on_from_its_checkpoint(
    stream: Stream, new_topic: NewTopicName, bootstrap: str
) -> None:
    topic = new_topic(2)
    produce(bootstrap, topic, numbers(0, 300), partition=0)
    produce(bootstrap, topic, numbers(0, 100), partition=1)
    query, rows = stream(subscribe=topic, maxOffsetsPerTrigger=150)
    assert len(rows) == 400
    batches = [each["numInputRows"] for each in progress(query) if each["numInputRows"]]
    assert len(batches) >= 3 and max(batches) <= 152
    produce(bootstrap, topic, numbers(300, 310), partition=0)
    query, rows = stream(subscribe=topic, maxOffsetsPerTrigger=150)
    assert [row.value for row in rows if row.partition == 0] == numbers(0, 310)
    (source,) = progress(query)[-1]["sources"]
    assert source["endOffset"] == {topic: {"0": 310, "1": 100}}
    assert source["metrics"]["maxOffsetsBehindLatest"] == "0"


def test_a_pattern_stream_takes_up_new_topics_and_partitions(
    stream: Stream, new_topic: NewTopicName, bootstrap: str, unique: str, admin: AdminClient
) -> None:
    first = new_topic()
    produce(bootstrap, first, ["a"])
    options = {"subscribePattern": f"{unique}-.*"}
    assert [row.value for row in stream(**options)[1]] == ["a"]
    second = new_topic()
    produce(bootstrap, second, ["b"])
    admin.create_partitions([NewPartitions(first, 2)])[first].result(30)
    eventually(lambda: len(admin.list_topics(first, timeout=10).topics[first].partitions) == 2)
    produce(bootstrap, first, ["c"], partition=1)
    rows = stream(**options)[1]
    found = [(row.topic, row.partition, row.value) for row in rows]
    assert found == [(first, 0, "a"), (first, 1, "c"), (second, 0, "b")]


def test_lost_data_fails_the_stream_unless_fail_on_data_loss_is_false(
    stream: Stream, topic: str, bootstrap: str, admin: AdminClient
) -> None:
    produce(bootstrap, topic, numbers(0, 10))
    assert len(stream(subscribe=topic)[1]) == 10
    produce(bootstrap, topic, numbers(10, 30))
    gone = TopicPartition(topic, 0, 20)
    admin.delete_records([gone])[gone].result(30)
    with pytest.raises(StreamingQueryException, match=r"(?i)data|offset"):
        stream(subscribe=topic)
    rows = stream(subscribe=topic, failOnDataLoss="false")[1]
    assert [row.offset for row in rows] == [*range(10), *range(20, 30)]


def test_a_group_id_and_a_prefix_are_accepted(
    batch: Reader, topic: str, bootstrap: str, unique: str
) -> None:
    produce(bootstrap, topic, ["x"])
    assert values_of(batch(subscribe=topic, kafka__group__id=unique)) == ["x"]
    assert values_of(batch(subscribe=topic, groupIdPrefix=f"{unique}-prefix")) == ["x"]


@pytest.mark.usefixtures("either_offset_reader")
def test_read_committed_leaves_out_aborted_and_open_transactions(
    batch: Reader, topic: str, bootstrap: str, unique: str
) -> None:
    produce(bootstrap, topic, numbers(0, 5))
    ends = {"commits": Producer.commit_transaction, "aborts": Producer.abort_transaction}
    transactional = {"bootstrap.servers": bootstrap}
    for start, what in ((5, "aborts"), (10, "commits"), (15, "opens")):
        producer = Producer({**transactional, "transactional.id": f"{unique}-{what}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in numbers(start, start + 5):
            producer.produce(topic, value)
        producer.flush(30)
        if what in ends:
            ends[what](producer, 30)
    try:
        committed = batch(subscribe=topic, kafka__isolation__level="read_committed")
        assert values_of(committed) == [*numbers(0, 5), *numbers(10, 15)]
        assert values_of(batch(subscribe=topic)) == numbers(0, 20)
    finally:
        producer.abort_transaction(30)


def test_a_topic_deleted_and_made_again_is_lost_data(
    stream: Stream, admin: AdminClient, bootstrap: str, unique: str
) -> None:
    for values in (numbers(0, 20), numbers(100, 105)):
        admin.create_topics([NewTopic(unique, 1)])[unique].result(30)
        produce(bootstrap, unique, values)
        if values[0] == "0":
            assert len(stream(subscribe=unique)[1]) == 20
            admin.delete_topics([unique])[unique].result(30)
            eventually(lambda: unique not in admin.list_topics(timeout=10).topics)
    with pytest.raises(StreamingQueryException):
        stream(subscribe=unique)
    admin.delete_topics([unique])[unique].result(30)


def test_the_sink_writes_keys_values_headers_and_partitions(
    spark: SparkSession, bootstrap: str, new_topic: NewTopicName, unique: str
) -> None:
    topic = new_topic(3)
    header = f.array(
        f.struct(f.lit("from").alias("key"), f.lit("spark").cast("binary").alias("value"))
    )
    frame = spark.range(300).select(
        f.lit(topic).alias("topic"),
        f.when(f.col("id") % 2 == 0, f.col("id").cast("string")).alias("key"),
        f.col("id").cast("string").alias("value"),
        (f.col("id") % 3).cast("int").alias("partition"),
        header.alias("headers"),
    )
    sink = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    sink.option("includeHeaders", "true").save()
    messages = consume(bootstrap, unique, topic, 300)
    assert sorted(int(message.value()) for message in messages) == list(range(300))
    for message in messages:
        number = int(message.value())
        assert message.partition() == number % 3
        assert message.key() == (str(number).encode() if number % 2 == 0 else None)
        assert message.headers() == [("from", b"spark")]


def test_the_sink_needs_a_topic(spark: SparkSession, bootstrap: str) -> None:
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises((AnalysisException, Exception), match="topic"):
        frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).save()


def test_a_stream_writes_to_the_sink_every_record_once_without_faults(
    spark: SparkSession, bootstrap: str, new_topic: NewTopicName, unique: str, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(2)
    for partition in range(2):
        produce(bootstrap, source, numbers(0, 500), partition=partition)
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    query = (
        read.option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .load()
        .selectExpr("CAST(partition AS STRING) AS key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    by_key: dict[bytes, list[int]] = {}
    for message in consume(bootstrap, unique, target, 1000):
        by_key.setdefault(message.key(), []).append(int(message.value()))
    assert by_key == {b"0": list(range(500)), b"1": list(range(500))}


HAS_REAL_TIME = "realTime" in inspect.signature(DataStreamWriter.trigger).parameters


@pytest.mark.parametrize(
    "trigger",
    [
        {"processingTime": "100 milliseconds"},
        {"continuous": "1 second"},
        # Records arrive while a batch is running: no batch ends within this test.
        pytest.param(
            {"realTime": "5 minutes"},
            marks=pytest.mark.skipif(not HAS_REAL_TIME, reason="real-time mode is newer"),
        ),
    ],
    ids=["micro-batches", "continuous", "real-time"],
)
def test_a_running_stream_sees_records_as_they_come(
    spark: SparkSession,
    bootstrap: str,
    new_topic: NewTopicName,
    unique: str,
    tmp_path: Path,
    trigger: dict[str, str],
) -> None:
    source, target = new_topic(1), new_topic(1)
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    query = (
        read.option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(**trigger)  # type: ignore[arg-type]
        .start()
    )
    try:
        for round_ in range(3):
            produce(bootstrap, source, [str(round_)])
            values = {
                message.value()
                for message in consume(bootstrap, f"{unique}{round_}", target, round_ + 1)
            }
            assert values == {str(done).encode() for done in range(round_ + 1)}
    finally:
        # A continuous query that is stopped raises an exception.
        with contextlib.suppress(Exception):
            query.stop()


def test_windows_with_a_watermark_close_as_time_goes_on(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    minute_ms = 60_000
    base_ms = 1_357_034_400_000
    for number in range(30):
        produce(bootstrap, topic, [str(number)], timestamp=base_ms + number * minute_ms)
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    windows = (
        read.option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10)
        .load()
        .withWatermark("timestamp", "2 minutes")
        .groupBy(f.window("timestamp", "5 minutes"))
        .count()
    )
    query = (
        windows.selectExpr("CAST(window.start AS LONG) AS start", "count")
        .writeStream.format("parquet")
        .outputMode("append")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "windows"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    closed = spark.read.parquet(str(tmp_path / "windows")).orderBy("start").collect()
    base_s = base_ms // 1000
    assert [(row.start - base_s, row["count"]) for row in closed] == [
        (start, 5) for start in range(0, 300 * len(closed), 300)
    ]
    assert len(closed) >= 3
