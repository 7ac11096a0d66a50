"""A campaign: consumers of four libraries, Streams and Spark go on while each broker fails.

The clusters have brokers of both engines; `broker_failures` names the variables.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from compat_tests import test_mixed_groups, test_spark_faults, test_streams
from compat_tests.broker_failures import SHAPES, fail_each_broker, shape_of
from compat_tests.cluster import Cluster
from compat_tests.group_member import LIBRARIES
from compat_tests.java_tools import JavaTools
from compat_tests.spark_session import spark_session
from compat_tests.test_mixed_groups import JAVA, RECORDS_PER_SECOND, Flow, crowd_of
from tests.eventually import eventually

_LINES = 300
"""Lines that the Streams application gets before a broker fails, and as many meanwhile."""
_RECORDS = 500
"""Records that both Spark streams read while a broker is away."""
_PATIENCE_S = 180

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # A task may fail while a broker is away: it is retried, as on a cluster.
    with spark_session("local[2,8]") as session:
        yield session


def create(cluster: Cluster, partitions: int, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions, 3) for name in names]).values():
        made.result(60)


@pytest.mark.parametrize("engines", SHAPES)
def test_group_of_four_libraries_reads_every_record(
    engines: str, tmp_path: Path, java_tools: JavaTools
) -> None:
    with Cluster.running(shape_of(engines), tmp_path) as cluster:
        create(cluster, test_mixed_groups.PARTITIONS, "t")
        with crowd_of(cluster.bootstrap, "t", "group", java_tools) as crowd:
            flow = Flow(cluster.bootstrap, "t")
            for library in (*LIBRARIES, JAVA):
                crowd.join(library)
            eventually(lambda: all(member.count for member in crowd.members), 90)

            def go_on() -> None:
                seen = len(crowd.seen)
                eventually(lambda: len(crowd.seen) > seen + 5 * RECORDS_PER_SECOND, _PATIENCE_S)

            fail_each_broker(cluster, "t", go_on)
            go_on()
            written = set(flow.stop().values())
            eventually(lambda: written <= set(crowd.seen.values()), _PATIENCE_S)
            assert all(member.process.poll() is None for member in crowd.members)
        places = sorted(crowd.seen)
        values = [int(crowd.seen[place]) for place in places]
        assert sorted(values) == list(range(len(written))), "each record once, and no others"
        for (partition, _), value, (after, _), later in zip(
            places, values, places[1:], values[1:], strict=False
        ):
            assert partition != after or value < later, "in order"


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("engines", SHAPES)
def test_streams_application_counts_exactly_once(
    engines: str, protocol: str, tmp_path: Path, java_tools: JavaTools
) -> None:
    expected = dict.fromkeys(test_streams.WORDS, 0)
    chance = random.Random(7)
    with Cluster.running(shape_of(engines), tmp_path) as cluster:
        create(cluster, test_streams.PARTITIONS, "lines", "counts")
        state = tmp_path / "state"
        application = test_streams.WordCount(java_tools, cluster, state, protocol)  # type: ignore[arg-type]

        def counted(share: float) -> None:
            wanted = sum(expected.values()) * share
            eventually(lambda: test_streams._total(cluster.bootstrap) >= wanted, _PATIENCE_S, 0.5)

        def write() -> None:
            test_streams._write(cluster.bootstrap, chance, expected, _LINES)

        def go_on() -> None:
            write()
            counted(0.9)

        def go_on_and_write() -> None:
            go_on()
            write()  # Work for the time in which the broker returns, and the next one fails.

        application.start()
        try:
            go_on_and_write()
            fail_each_broker(cluster, "counts", go_on_and_write)
            counted(1)
        finally:
            application.kill()
        counts = test_streams._counts(cluster.bootstrap)
    # Not only the last count: each number from 1 on was written once, in order.
    assert counts == {word: list(range(1, total + 1)) for word, total in expected.items()}


@pytest.mark.parametrize("engines", SHAPES)
def test_spark_streams_copy_every_record(engines: str, tmp_path: Path, spark: SparkSession) -> None:
    start, progress_of = test_spark_faults.start, test_spark_faults.records_read
    with Cluster.running(shape_of(engines), tmp_path) as cluster:
        create(cluster, test_spark_faults.PARTITIONS, "source", "target")
        files, checkpoints = str(tmp_path / "files"), str(tmp_path / "checkpoints")
        to_files = {"format": "parquet", "path": files, "checkpointLocation": f"{checkpoints}/f"}
        to_topic = {"format": "kafka", "kafka.bootstrap.servers": cluster.bootstrap}
        to_topic |= {"topic": "target", "checkpointLocation": f"{checkpoints}/k"}
        queries = [start(spark, cluster.bootstrap, "source", sink) for sink in (to_files, to_topic)]
        feed = test_spark_faults.Feed(cluster.bootstrap, "source")

        def progress() -> int:
            feed.read = min(map(progress_of, queries))
            return feed.read

        def go_on() -> None:
            wanted = progress() + _RECORDS
            eventually(lambda: progress() >= wanted, _PATIENCE_S)

        feed.start()
        try:
            go_on()
            fail_each_broker(cluster, "source", go_on)
            go_on()
            feed.stopping.set()
            feed.join(_PATIENCE_S)
            eventually(lambda: progress() >= feed.sent, _PATIENCE_S)
        finally:
            feed.stopping.set()
            for query in queries:
                query.stop()
        assert feed.lost == []
        written = sorted(int(row.value) for row in spark.read.parquet(files).collect())
        assert written == list(range(feed.sent)), "each record exactly once in the files"
        test_spark_faults.check_target(cluster.bootstrap, feed.sent)
