"""Spark's data source `wirekafka` beside Spark's own kafka format, and its streams' restarts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from compat_tests.conftest import RunningBroker
from compat_tests.generated_topic import generate
from compat_tests.sasl_over_tls import Secured, secured_broker
from compat_tests.spark_session import progress, spark_session
from tests.eventually import eventually
from wirekafka.reader import Log
from wirekafka.spark import Source

T = TypeVar("T")
GUIDE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "read-with-spark.md"
_LATE_WORKER = "Python worker failed to connect back"
COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        session.dataSource.register(Source)
        yield session


@pytest.fixture(scope="module", params=["wirekafka", "apache-kafka"])
def generated(request: pytest.FixtureRequest) -> Iterator[tuple[RunningBroker, str]]:
    """A broker and the beginning of the names of two topics, one with LogAppendTime."""
    name = "apache_kafka" if request.param == "apache-kafka" else "broker"
    broker = request.getfixturevalue(name)
    # The open transactions are of producers that have to live on.
    left_open = [
        generate(broker.bootstrap, "source-test", 17),
        generate(broker.bootstrap, "source-test-appended", 18, log_append_time=True),
    ]
    yield broker, "source-test"
    for producer in left_open:
        producer.purge()


def load(spark: SparkSession, form: str, **options: Any) -> DataFrame:
    """Read a batch; two underscores in the name of an option are a dot."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return spark.read.format(form).options(**(COMMITTED | given)).load()


def both(spark: SparkSession, bootstrap: str, **options: Any) -> tuple[list[Row], list[Row]]:
    """The rows of our format and of Spark's, in one order."""
    given = {"kafka__bootstrap__servers": bootstrap} | options
    ours, theirs = (load(spark, form, **given) for form in ("wirekafka", "kafka"))
    assert ours.schema == theirs.schema
    return in_order(ours), in_order(theirs)


def in_order(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def assert_equal(ours: list[Row], theirs: list[Row]) -> None:
    """Compare places before rows: a difference is readable then."""
    places = [[(row.topic, row.partition, row.offset) for row in rows] for rows in (ours, theirs)]
    assert places[0] == places[1]
    for our, their in zip(ours, theirs, strict=True):
        assert our == their


def test_rows_equal_the_rows_of_sparks_format(
    spark: SparkSession, generated: tuple[RunningBroker, str]
) -> None:
    broker, name = generated
    pattern = f"{name}.*"
    ours, theirs = both(
        spark, broker.bootstrap, subscribePattern=pattern, includeHeaders=True, minPartitions=6
    )
    assert_equal(ours, theirs)
    assert len(ours) > 300
    assert {row.timestampType for row in ours} == {0, 1}
    assert max(len(row.value or b"") for row in ours) == 1_000_000


def test_rows_of_files_equal_the_rows_of_their_broker(
    spark: SparkSession, generated: tuple[RunningBroker, str]
) -> None:
    broker, name = generated
    assert broker.data is not None
    given = {"subscribe": f"{name},{name}-appended", "includeHeaders": "true"}
    over_the_wire = load(spark, "wirekafka", kafka__bootstrap__servers=broker.bootstrap, **given)
    expected = in_order(over_the_wire)
    await_checkpoint(broker, {(row.topic, row.partition): row.offset for row in expected})
    stored = in_order(load(spark, "wirekafka", path=broker.data, **given))
    # Apache Kafka writes every minute only where logs begin after records have been deleted.
    starts = {(row.topic, row.partition): row.offset for row in reversed(expected)}
    stored = [row for row in stored if row.offset >= starts[row.topic, row.partition]]
    assert_equal(stored, expected)


def patiently(run: Callable[[], T]) -> T:
    """Run a query, up to twice again if the Python process that plans it was late to start.

    Spark gives this process ten seconds. A busy machine may take longer, and there is no option for
    it. Such a run has read no row.
    """
    for _ in range(2):
        try:
            return run()
        except PySparkException as error:
            if _LATE_WORKER not in str(error):
                raise
    return run()


def await_checkpoint(broker: RunningBroker, offsets: dict[tuple[str, int], int]) -> None:
    """Wait until readers of files see records; a broker writes its high watermarks every 5 s."""

    def are_checkpointed() -> bool:
        with Log.open(broker.data) as log:
            return all(log.offsets(*each).end_offset > offset for each, offset in offsets.items())

    eventually(are_checkpointed, timeout_s=60)


def test_offsets_and_times_bound_a_batch_as_in_sparks_format(
    spark: SparkSession, generated: tuple[RunningBroker, str]
) -> None:
    broker, topic = generated
    ours, theirs = both(
        spark,
        broker.bootstrap,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 20, "1": -2}}),
        endingTimestamp=1_700_009_950_000,
    )
    assert ours
    assert_equal(ours, theirs)


def test_columns_are_chosen_by_option_or_by_schema(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    produce(bootstrap, topic, range(7))
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    chosen = load(spark, "wirekafka", columns="offset,value", **given)
    assert chosen.columns == ["offset", "value"]
    narrow = spark.read.format("wirekafka").schema("offset BIGINT").options(**given).load()
    assert [row.offset for row in narrow.collect()] == list(range(7))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "startingOffset": "earliest"}, "startingoffset is no option"),
        ({"subscribe": "a", "assign": "{}"}, "assign contradicts subscribe"),
        ({"subscribe": "no-such-topic"}, "no topic no-such-topic"),
    ],
)
def test_a_mistake_is_reported_by_name(
    spark: SparkSession, bootstrap: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        load(spark, "wirekafka", kafka__bootstrap__servers=bootstrap, **options).count()
    assert message.lower() in str(raised.value).lower()


def test_the_blocks_of_the_guide_run(
    spark: SparkSession,
    broker: RunningBroker,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    produce(broker.bootstrap, topic, range(12))
    await_checkpoint(broker, {(topic, 0): 11})
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    places = {
        "orders": topic,
        "localhost:9092": broker.bootstrap,
        "/var/lib/kafka/data": str(broker.data),
        "/data/": f"{tmp_path}/",
    }
    names = {"spark": spark}
    for block in blocks:
        for name, place in places.items():
            block = re.sub(rf'"{name}', f'"{place}', block)
        runs = partial(exec, block, names)
        if "readStream" in block:
            patiently(runs)
        else:
            runs()
    assert len(blocks) == 3
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["[Row(partition=0, count=12)]", "12"]
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 12


class Stream:
    """A query that goes on from its checkpoint whenever it runs, into files."""

    def __init__(self, spark: SparkSession, bootstrap: str, scratch: Path) -> None:
        self.spark, self.bootstrap, self.scratch = spark, bootstrap, scratch

    def run(self, **options: Any) -> list[int]:
        """Read what is there; returns the rows of each step."""
        return patiently(lambda: self._run(**options))

    def _run(self, **options: Any) -> list[int]:
        given = {"startingOffsets": "earliest"} | options
        query = (
            self.spark.readStream.format("wirekafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .options(**{name: str(value) for name, value in given.items()})
            .load()
            .selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .option("path", str(self.scratch / "rows"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        return [each["numInputRows"] for each in progress(query)]

    @property
    def checkpoint(self) -> Path:
        return self.scratch / "checkpoint"

    def forget_last_commit(self) -> None:
        """Put the checkpoint back to before the end of the last step, as a killed query left it."""
        last = max((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def values(self) -> list[str]:
        rows = self.spark.read.parquet(str(self.scratch / "rows")).collect()
        return [row.value for row in sorted(rows, key=lambda row: tuple(row))]


@pytest.fixture
def stream(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Stream:
    return Stream(spark, bootstrap, tmp_path)


def produce(bootstrap: str, topic: str, values: range, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, f"{value:04}", partition=partition)
    assert producer.flush(30) == 0


def numbers(*ranges: range) -> list[str]:
    return [f"{value:04}" for each in ranges for value in each]


def test_a_resumed_stream_has_each_record_once(stream: Stream, topic: str) -> None:
    produce(stream.bootstrap, topic, range(40))
    assert stream.run(subscribe=topic) == [40]
    produce(stream.bootstrap, topic, range(40, 50))
    assert stream.run(subscribe=topic) == [10]
    stream.forget_last_commit()
    produce(stream.bootstrap, topic, range(50, 60))
    # Before 4.2, AvailableNow ends after a step that is repeated.
    stream.run(subscribe=topic)
    stream.run(subscribe=topic)
    assert stream.values() == numbers(range(60))


def test_a_stream_killed_in_its_first_step_resumes_where_it_began(
    stream: Stream, topic: str
) -> None:
    """From the latest offsets of its first start, not of the next one."""
    produce(stream.bootstrap, topic, range(10))
    stream.run(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 4}}))
    stream.forget_last_commit()
    produce(stream.bootstrap, topic, range(10, 20))
    stream.run(subscribe=topic, startingOffsets="latest")
    stream.run(subscribe=topic, startingOffsets="latest")
    assert stream.values() == numbers(range(4, 20))


def test_new_partitions_are_found_and_steps_are_limited(
    stream: Stream, topic: str, admin: AdminClient
) -> None:
    produce(stream.bootstrap, topic, range(10))
    steps = stream.run(subscribePattern=f"{topic}.*", maxOffsetsPerTrigger=6)
    # Spark before 4.2 has one step for AvailableNow, whatever the limit.
    assert steps[0] == 6
    while sum(stream.run(subscribePattern=f"{topic}.*", maxOffsetsPerTrigger=6)):
        pass
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    produce(stream.bootstrap, topic, range(10, 15), partition=1)
    assert sum(stream.run(subscribePattern=f"{topic}.*")) == 5
    assert stream.values() == numbers(range(15))


def test_deleted_records_fail_a_stream_unless_it_may_lose_them(
    stream: Stream, topic: str, admin: AdminClient
) -> None:
    produce(stream.bootstrap, topic, range(5))
    stream.run(subscribe=topic)
    produce(stream.bootstrap, topic, range(5, 20))
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
    deleted.result(30)
    with pytest.raises(PySparkException, match="offsets 5 up to 12"):
        stream.run(subscribe=topic)
    stream.run(subscribe=topic, failOnDataLoss="false")
    assert stream.values() == numbers(range(5), range(12, 20))


def test_a_login_over_tls_has_the_names_of_kafkas_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "secured"
    directory.mkdir()
    with secured_broker(directory) as secured:
        produce_secured(secured)
        options = {
            f"kafka.{name}": value
            for name, value in secured.java(tmp_path, "SCRAM-SHA-512").items()
        }
        options |= {"kafka.bootstrap.servers": secured.bootstrap, "subscribe": "shared-source"}
        frame = spark.read.format("wirekafka").options(**options).load()
        assert [bytes(row.value) for row in frame.collect()] == [b"secret"]


def produce_secured(secured: Secured) -> None:
    producer = Producer(secured.confluent("SCRAM-SHA-512"))
    producer.produce("shared-source", b"secret")
    assert producer.flush(30) == 0
