"""Spark writes with the sink `wirekafka`, to wirekafka and to Apache Kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter

from compat_tests.conftest import RunningBroker
from compat_tests.sasl_over_tls import secured_broker
from compat_tests.spark_session import spark_session
from wirekafka.spark import Source

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "write-with-spark.md"
_LATE_WORKER = "Python worker failed to connect back"
"""On a busy machine: Spark gives the process that plans a stream ten seconds to start."""
PARTITIONS = 5
RECORDS = 400
FIRST_MS = time.time_ns() // 1_000_000 - 60_000
"""The time of the first record; brokers delete old records, and refuse those of the future."""
FIRST_MS = time.time_ns() // 1_000_000 - 60_000
"""The time of the first record; brokers delete old records, and refuse those of the future."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        session.dataSource.register(Source)
        yield session


@pytest.fixture(scope="module", params=["wirekafka", "apache-kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    name = "apache_kafka" if request.param == "apache-kafka" else "broker"
    broker: RunningBroker = request.getfixturevalue(name)
    return broker.bootstrap


def create(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = [NewTopic(topic, PARTITIONS, 1) for topic in topics]
    for made in admin.create_topics(new).values():
        made.result(30)


def rows_in(spark: SparkSession, bootstrap: str, topic: str, **more: str) -> list[Row]:
    """The rows that Java's consumer reads with read_committed."""
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .option("subscribe", topic)
        .options(**more)
    )
    return sorted(frame.load().collect(), key=lambda row: (row.partition, row.offset))


def orders(spark: SparkSession) -> DataFrame:
    """Rows with a key, and with values, headers and partitions of which some are missing."""
    number = f.col("id")
    headers = f.array(
        f.struct(f.lit("source").alias("key"), f.lit(b"test").alias("value")),
        f.struct(f.lit("empty").alias("key"), f.lit(None).cast("binary").alias("value")),
    )
    return spark.range(0, RECORDS, 1, 2).select(
        f.concat(f.lit("key-"), (number % 37).cast("string")).alias("key"),
        f.when(number % 10 != 0, number.cast("string").cast("binary")).alias("value"),
        f.when(number % 3 != 0, headers).alias("headers"),
        f.when(number % 4 == 0, (number % PARTITIONS).cast("int")).alias("partition"),
        f.timestamp_millis(f.lit(FIRST_MS) + number).alias("timestamp"),
    )


def test_records_equal_the_records_of_sparks_own_sink(
    spark: SparkSession, bootstrap: str, unique: str
) -> None:
    """Keys are placed as Java's producer places them; headers and partitions are kept."""
    topics = {"wirekafka": f"{unique}-ours", "kafka": f"{unique}-theirs"}
    create(bootstrap, *topics.values())
    for form, topic in topics.items():
        frame = orders(spark).coalesce(1)
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        options["kafka.compression.type"] = "zstd"
        frame.write.format(form).options(**options).mode("append").save()
    ours, theirs = (rows_in(spark, bootstrap, topic) for topic in topics.values())
    columns = ("partition", "offset", "key", "value", "headers")
    assert [[row[name] for name in columns] for row in ours] == [
        [row[name] for name in columns] for row in theirs
    ]
    assert len(ours) == RECORDS
    times = [int(row.timestamp.timestamp() * 1000) for row in ours]
    assert sorted(times) == [FIRST_MS + number for number in range(RECORDS)]


@pytest.mark.parametrize("source", ["kafka", "wirekafka", "files"])
def test_replayed_batches_are_written_once(
    spark: SparkSession, bootstrap: str, unique: str, tmp_path: Path, source: str
) -> None:
    given = {"kafka.bootstrap.servers": bootstrap}
    create(bootstrap, unique, f"{unique}-target")
    values = orders(spark).select("value").where("value IS NOT NULL")
    if source == "files":
        values.write.parquet(f"{tmp_path}/files")
        rows = spark.readStream.schema("value binary").parquet(f"{tmp_path}/files")
    else:
        values.write.format("kafka").options(**given, topic=unique).save()
        topic = {**given, "subscribe": unique, "startingOffsets": "earliest"}
        limit = {"maxOffsetsPerTrigger": str(RECORDS // 2)} if source == "kafka" else {}
        rows = spark.readStream.format(source).options(**topic, **limit).load()
    query = writer(rows, bootstrap, unique, tmp_path / "checkpoint").trigger(availableNow=True)
    run(query)
    forget_last_commit(tmp_path / "checkpoint")
    run(query)
    found = [int(row.value) for row in rows_in(spark, bootstrap, f"{unique}-target")]
    assert sorted(found) == [number for number in range(RECORDS) if number % 10]


def test_stream_without_an_end_goes_on_after_it_was_stopped(
    spark: SparkSession, broker: RunningBroker, unique: str, tmp_path: Path
) -> None:
    create(broker.bootstrap, f"{unique}-target")
    rows = spark.readStream.format("rate").options(rowsPerSecond="50").load()
    rows = rows.selectExpr("CAST(value AS STRING) AS value")
    for _ in range(2):
        query = writer(rows, broker.bootstrap, unique, tmp_path / "checkpoint").start()
        while query.lastProgress is None or not query.lastProgress["numInputRows"]:
            assert not query.awaitTermination(1)
        query.stop()
    found = [int(row.value) for row in rows_in(spark, broker.bootstrap, f"{unique}-target")]
    assert sorted(found) == list(range(len(found))) and found


def writer(rows: DataFrame, bootstrap: str, unique: str, checkpoint: Path) -> DataStreamWriter:
    return (
        rows.writeStream.format("wirekafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{unique}-target")
        .option("transactional.id", unique)
        .option("checkpointLocation", str(checkpoint))
    )


def run(query: DataStreamWriter) -> None:
    """Run a stream to its end, again if a Python process of it was late to start."""
    for _ in range(2):
        try:
            query.start().awaitTermination()
            return
        except PySparkException as error:
            if _LATE_WORKER not in str(error):
                raise
    query.start().awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as a driver does that dies after the sink has committed."""
    numbers = [int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]
    for name in (str(max(numbers)), f".{max(numbers)}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_failing_task_leaves_nothing_visible(
    spark: SparkSession, bootstrap: str, unique: str
) -> None:
    create(bootstrap, unique)
    options = {"kafka.bootstrap.servers": bootstrap, "topic": unique}
    value = f.when(f.col("id") < RECORDS - 1, f.col("id").cast("string")).otherwise(
        f.raise_error(f.lit("the last row fails"))
    )
    frame = spark.range(0, RECORDS, 1, 2).select(value.alias("value"))
    with pytest.raises(PySparkException, match="the last row fails"):
        frame.write.format("wirekafka").options(**options).mode("append").save()
    assert rows_in(spark, bootstrap, unique) == []


def test_sink_that_is_not_exactly_once_writes_every_row(
    spark: SparkSession, bootstrap: str, unique: str
) -> None:
    create(bootstrap, unique)
    options = {"kafka.bootstrap.servers": bootstrap, "topic": unique, "exactlyOnce": "false"}
    orders(spark).write.format("wirekafka").options(**options).mode("append").save()
    assert len(rows_in(spark, bootstrap, unique)) == RECORDS


def test_mistakes_are_reported_before_any_row_is_computed(
    spark: SparkSession, bootstrap: str, unique: str
) -> None:
    failing = spark.range(1).select(f.raise_error(f.lit("computed")).cast("string").alias("value"))
    right = {"kafka.bootstrap.servers": bootstrap, "topic": unique}

    def message(mode: str, **options: str) -> str:
        with pytest.raises(PySparkException) as raised:
            failing.write.format("wirekafka").options(**right | options).mode(mode).save()
        return str(raised.value)

    assert 'topics cannot be overwritten: use mode("append")' in message("overwrite")
    assert "subscribe is for reading" in message("append", subscribe="a")
    assert "kafka.acks: '1' is not all" in message("append", **{"kafka.acks": "1"})
    assert "cannot be written" in message("ignore")


def test_spark_writes_over_tls_with_a_login_and_rights(
    spark: SparkSession, unique: str, tmp_path: Path
) -> None:
    with secured_broker(tmp_path) as secured:
        topic = f"shared-{unique}"
        settings = secured.java(tmp_path, "SCRAM-SHA-512")
        options = {f"kafka.{name}": value for name, value in settings.items()}
        options["kafka.bootstrap.servers"] = secured.bootstrap

        def write() -> None:
            rows = orders(spark).drop("partition")
            writer = rows.write.format("wirekafka").options(**options, topic=topic)
            writer.option("transactional.id", topic).mode("append").save()

        with pytest.raises(PySparkException, match=f"may not use the transactional id {topic}"):
            write()
        binding = AclBinding(
            ResourceType.TRANSACTIONAL_ID,
            topic,
            ResourcePatternType.LITERAL,
            "User:carol",
            "*",
            AclOperation.WRITE,
            AclPermissionType.ALLOW,
        )
        admin = secured.admin()
        admin.create_acls([binding])[binding].result(20)
        write()
        more = options | {"groupIdPrefix": topic}
        assert len(rows_in(spark, secured.bootstrap, topic, **more)) == RECORDS


def test_the_guide_runs(
    spark: SparkSession,
    bootstrap: str,
    unique: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {
        "orders": f"{unique}-orders",
        "invoices": f"{unique}-invoices",
        "localhost:9092": bootstrap,
        "/data/": f"{tmp_path}/",
    }
    create(bootstrap, places["orders"], places["invoices"])
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name, place in places.items():
        blocks = [re.sub(rf'"{name}', f'"{place}', block) for block in blocks]
    stream, read, batch = blocks
    names = {"spark": spark, "orders": spark.range(12)}
    for block in (batch, stream, read):
        exec(block, names)
    assert capsys.readouterr().out.splitlines() == ["12"]
