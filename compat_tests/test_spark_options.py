"""The options of Spark's connector that decide how much is read, and what lost data means."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from compat_tests.conftest import NewTopicName
from compat_tests.spark_session import progress
from tests.eventually import eventually

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
DEPRECATED = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}

Reader = Callable[..., list[str]]
Stream = Callable[..., tuple[StreamingQuery, list[str]]]


@pytest.fixture(params=["false", "true"], ids=["admin-offsets", "consumer-offsets"])
def either_offset_reader(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = spark.conf.get(DEPRECATED, "false")
    spark.conf.set(DEPRECATED, request.param)
    yield
    spark.conf.set(DEPRECATED, before)


@pytest.fixture
def batch(spark: SparkSession, bootstrap: str) -> Reader:
    """`batch({"subscribe": topic})`: the values, in the order of the offsets of one partition."""

    def read(options: dict[str, Any]) -> list[str]:
        return values(load(spark.read, bootstrap, options).orderBy("partition", "offset"))

    return read


@pytest.fixture
def stream(spark: SparkSession, bootstrap: str, unique: str, tmp_path: Path) -> Stream:
    """`stream({"subscribe": topic})` reads from its checkpoint to the present end of the topic."""

    def run(options: dict[str, Any], **trigger: Any) -> tuple[StreamingQuery, list[str]]:
        given = {"startingOffsets": "earliest"} | options
        query = (
            load(spark.readStream, bootstrap, given)
            .selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "rows"))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("partition", "offset")
        return query, [row.value for row in rows.collect()]

    return run


def load(reader: Any, bootstrap: str, options: dict[str, Any]) -> DataFrame:
    reader = reader.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    frame: DataFrame = reader.options(**{key: str(value) for key, value in options.items()}).load()
    return frame


def values(frame: DataFrame) -> list[str]:
    return [bytes(row.value).decode() for row in frame.select("value").collect()]


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def produce(bootstrap: str, topic: str, sent: list[str], **options: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in sent:
        producer.produce(topic, value, **options)
    assert producer.flush(30) == 0


def transactional(bootstrap: str, name: str) -> Producer:
    # An open transaction stays open however long Spark takes.
    options = {"transactional.id": name, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": bootstrap, **options})
    producer.init_transactions(30)
    return producer


def transaction(producer: Producer, topic: str, sent: list[str]) -> None:
    """A transaction that is begun and written; the caller ends it."""
    producer.begin_transaction()
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def test_read_committed_over_committed_aborted_and_open_transactions(
    batch: Reader, stream: Stream, topic: str, bootstrap: str, unique: str
) -> None:
    first, second = (transactional(bootstrap, f"{unique}-{number}") for number in (1, 2))
    transaction(first, topic, numbers(0, 10))
    first.commit_transaction(30)
    transaction(first, topic, numbers(10, 20))
    first.abort_transaction(30)
    transaction(first, topic, numbers(20, 30))
    transaction(second, topic, numbers(30, 40))
    first.commit_transaction(30)
    committed, everything = {"subscribe": topic} | READ_COMMITTED, {"subscribe": topic}
    # The second transaction is open: nothing from its first record on can be read.
    assert batch(committed) == numbers(0, 10) + numbers(20, 30)
    assert batch(everything) == numbers(0, 40)
    assert stream(committed)[1] == numbers(0, 10) + numbers(20, 30)
    second.commit_transaction(30)
    assert batch(committed) == numbers(0, 10) + numbers(20, 40)
    assert stream(committed)[1] == numbers(0, 10) + numbers(20, 40)


def test_a_read_that_ends_in_aborted_records_is_no_data_loss(
    stream: Stream, topic: str, bootstrap: str, unique: str
) -> None:
    producer = transactional(bootstrap, unique)
    for aborted in range(4):
        transaction(producer, topic, numbers(aborted, aborted + 1))
        producer.abort_transaction(30)
    options = {"subscribe": topic, "failOnDataLoss": "true"} | READ_COMMITTED
    query, found = stream(options)
    assert (found, query.exception()) == ([], None)
    transaction(producer, topic, ["kept"])
    producer.commit_transaction(30)
    assert stream(options)[1] == ["kept"]


@pytest.mark.usefixtures("either_offset_reader")
def test_a_batch_ends_at_offsets_and_timestamps(batch: Reader, topic: str, bootstrap: str) -> None:
    for number in range(20):
        produce(bootstrap, topic, [str(number)], timestamp=1_000_000 + number * 1000)
    ending = {"endingOffsets": json.dumps({topic: {"0": 7}})}
    assert batch({"subscribe": topic, **ending}) == numbers(0, 7)
    ending = {"endingTimestamp": 1_010_000}
    assert batch({"subscribe": topic, **ending}) == numbers(0, 10)
    ending = {"endingOffsetsByTimestamp": json.dumps({topic: {"0": 1_003_500}})}
    assert batch({"subscribe": topic, **ending}) == numbers(0, 4)
    # No record has such a late timestamp: the batch then ends at the end of the log.
    assert batch({"subscribe": topic, "endingTimestamp": 9_000_000}) == numbers(0, 20)
    both = {"startingTimestamp": 1_005_000, "endingTimestamp": 1_006_000}
    assert batch({"subscribe": topic, **both}) == ["5"]


def test_a_stream_starts_at_its_starting_offsets_or_its_checkpoint(
    stream: Stream, batch: Reader, new_topic: NewTopicName, bootstrap: str
) -> None:
    topic = new_topic(2)
    for partition in range(2):
        produce(bootstrap, topic, numbers(0, 10), partition=partition)
    start = json.dumps({topic: {"0": 8, "1": -1}})
    assert stream({"subscribe": topic, "startingOffsets": start})[1] == ["8", "9"]
    produce(bootstrap, topic, ["new"], partition=1)
    # The checkpoint overrides the starting offsets of a new query.
    assert stream({"subscribe": topic, "startingOffsets": "latest"})[1] == ["8", "9", "new"]
    start = json.dumps({topic: {"0": -2, "1": 10}})
    assert batch({"subscribe": topic, "startingOffsets": start}) == [*numbers(0, 10), "new"]


@pytest.mark.skipif(SPARK < (4, 0), reason="maxRecordsPerPartition came with Spark 4")
def test_max_records_per_partition_splits_a_streams_read(
    spark: SparkSession, topic: str, bootstrap: str, tmp_path: Path
) -> None:
    produce(bootstrap, topic, numbers(0, 1000))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxRecordsPerPartition": 100}
    taken: list[tuple[int, list[str]]] = []

    def take(frame: DataFrame, number: int) -> None:
        taken.append((frame.rdd.getNumPartitions(), values(frame.orderBy("offset"))))

    query = (
        load(spark.readStream, bootstrap, options)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert taken == [(10, numbers(0, 1000))]


def test_once_takes_all_in_one_batch(stream: Stream, topic: str, bootstrap: str) -> None:
    produce(bootstrap, topic, numbers(0, 100))
    query, found = stream({"subscribe": topic, "maxOffsetsPerTrigger": 10}, once=True)
    assert len(found) == 100
    assert [each["numInputRows"] for each in progress(query)] == [100]


def test_min_offsets_wait_for_enough_or_for_the_delay(
    spark: SparkSession, topic: str, bootstrap: str, tmp_path: Path
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 50}
    produce(bootstrap, topic, numbers(0, 50))
    query = running(
        load(spark.readStream, bootstrap, options | {"maxTriggerDelay": "8s"}), tmp_path
    )
    try:
        eventually(lambda: rows_of(query) == 50, timeout_s=60)
        began = time.monotonic()
        produce(bootstrap, topic, numbers(50, 60))
        eventually(lambda: rows_of(query) == 60, timeout_s=60)
        assert time.monotonic() - began > 3, "it waited for more"
    finally:
        query.stop()


@pytest.mark.usefixtures("either_offset_reader")
def test_progress_shows_the_lag_of_a_stream(
    spark: SparkSession, new_topic: NewTopicName, bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(2)
    produce(bootstrap, topic, numbers(0, 100), partition=0)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    query = running(load(spark.readStream, bootstrap, options), tmp_path)
    try:
        eventually(lambda: rows_of(query) == 100, timeout_s=60)
        read = [each["sources"][0] for each in progress(query) if each["numInputRows"]]
        metrics = [source["metrics"] for source in read]
        assert [int(each["maxOffsetsBehindLatest"]) for each in metrics] == [60, 20, 0]
        assert [int(each["minOffsetsBehindLatest"]) for each in metrics] == [0, 0, 0]
        assert [float(each["avgOffsetsBehindLatest"]) for each in metrics] == [30, 10, 0]
        latest = {topic: {"0": 100, "1": 0}}
        assert [source["latestOffset"] for source in read] == [latest] * 3
    finally:
        query.stop()


@pytest.mark.usefixtures("either_offset_reader")
def test_deleted_records_fail_a_stream_unless_fail_on_data_loss_is_false(
    stream: Stream, topic: str, bootstrap: str, admin: AdminClient
) -> None:
    produce(bootstrap, topic, numbers(0, 10))
    assert stream({"subscribe": topic})[1] == numbers(0, 10)
    produce(bootstrap, topic, numbers(10, 30))
    gone = TopicPartition(topic, 0, 25)
    admin.delete_records([gone])[gone].result(30)
    with pytest.raises(StreamingQueryException, match=r"(?i)data.?loss|missing|lost"):
        stream({"subscribe": topic})
    options = {"subscribe": topic, "failOnDataLoss": "false"}
    assert stream(options)[1] == numbers(0, 10) + numbers(25, 30)


def test_a_topic_that_was_deleted_and_made_again(
    stream: Stream, new_topic: NewTopicName, bootstrap: str, admin: AdminClient
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, numbers(0, 10))
    assert stream({"subscribe": topic})[1] == numbers(0, 10)
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics)
    eventually(lambda: admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30) is None)
    produce(bootstrap, topic, numbers(100, 105))
    with pytest.raises(StreamingQueryException, match=r"(?i)data.?loss|missing|lost|changed from"):
        stream({"subscribe": topic})
    # The offsets went back, and 100 to 104 are below the checkpoint: they are skipped.
    options = {"subscribe": topic, "failOnDataLoss": "false"}
    found = stream(options)[1]
    assert set(found) <= {*numbers(0, 10), *numbers(100, 105)} and found[:1] == ["0"]
    produce(bootstrap, topic, numbers(105, 107))
    assert {"105", "106"} <= set(stream(options)[1])


def test_retention_behind_a_stream_is_no_loss_and_ahead_of_it_is(
    stream: Stream, new_topic: NewTopicName, bootstrap: str, admin: AdminClient
) -> None:
    topic = new_topic(1)
    produce(bootstrap, topic, numbers(0, 50))
    assert len(stream({"subscribe": topic})[1]) == 50
    read = TopicPartition(topic, 0, 50)
    admin.delete_records([read])[read].result(30)
    produce(bootstrap, topic, numbers(50, 60))
    assert stream({"subscribe": topic})[1] == numbers(0, 60)


def test_groups_that_spark_uses_leave_no_trace(
    batch: Reader, topic: str, bootstrap: str, unique: str, admin: AdminClient
) -> None:
    produce(bootstrap, topic, ["x"])
    assert batch({"subscribe": topic, "kafka.group.id": unique}) == ["x"]
    assert batch({"subscribe": topic, "groupIdPrefix": f"{unique}-prefix"}) == ["x"]
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    assert not {group for group in groups if group.startswith(unique)}


@pytest.mark.usefixtures("either_offset_reader")
def test_topics_and_partitions_that_come_while_a_pattern_stream_runs_are_read(
    spark: SparkSession,
    new_topic: NewTopicName,
    bootstrap: str,
    unique: str,
    admin: AdminClient,
    tmp_path: Path,
) -> None:
    first = new_topic()
    produce(bootstrap, first, ["a"])
    options = {"subscribePattern": f"{unique}-.*", "startingOffsets": "earliest"}
    # The consumer of the old way looks for matching topics whenever it refreshes its metadata.
    query = running(
        load(spark.readStream, bootstrap, options | {"kafka.metadata.max.age.ms": 500}), tmp_path
    )
    try:
        eventually(lambda: rows_of(query) == 1, timeout_s=60)
        produce(bootstrap, new_topic(), ["b", "c"])
        eventually(lambda: rows_of(query) == 3, timeout_s=60)
        admin.create_partitions([NewPartitions(first, 2)])[first].result(30)
        eventually(lambda: len(admin.list_topics(first, timeout=10).topics[first].partitions) == 2)
        produce(bootstrap, first, ["d", "e", "f"], partition=1)
        eventually(lambda: rows_of(query) == 6, timeout_s=60)
    finally:
        query.stop()


def test_a_wrong_option_names_itself(batch: Reader, topic: str) -> None:
    with pytest.raises(Exception, match=r"(?i)minPartitions"):
        batch({"subscribe": topic, "minPartitions": 0})
    with pytest.raises(Exception, match=re.escape("kafka.group.id") + "|auto.offset.reset"):
        batch({"subscribe": topic, "kafka.auto.offset.reset": "latest"})


def running(frame: DataFrame, directory: Path) -> StreamingQuery:
    return (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )


def rows_of(query: StreamingQuery) -> int:
    if not query.isActive:
        query.awaitTermination()
    return sum(each["numInputRows"] for each in progress(query))
