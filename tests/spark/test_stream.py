"""The steps of a streaming query: where they begin and end, restarts, new and lost partitions."""

import json
from typing import Any

import pytest

from tests.spark.known_log import KnownLog
from wirekafka.reader.source import OffsetRange
from wirekafka.spark import stream
from wirekafka.spark.options import stream_options
from wirekafka.spark.plan import DataLossFailure
from wirekafka.spark.stream import StreamReader

Steps = list[tuple[str, int, int, int]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> KnownLog:
    known = KnownLog(orders=[(0, 100), (20, 50)])
    monkeypatch.setattr(stream, "open_log", lambda options: known)
    return known


def reader(**options: str) -> StreamReader:
    given = {"path": "/data", "subscribe": "orders", "startingOffsets": "earliest"} | options
    return StreamReader(stream_options({name: text for name, text in given.items() if text}))


def planned(of: StreamReader, start: Any, end: Any) -> Steps:
    """The step between offsets that were kept as JSON, as Spark keeps them."""
    start, end = (json.loads(json.dumps(each)) for each in (start, end))
    splits = [task.split for task in of.partitions(start, end)]
    return [(each.topic, each.partition, each.start_offset, each.end_offset) for each in splits]


@pytest.mark.usefixtures("log")
def test_the_first_step_reads_what_is_there() -> None:
    query = reader()
    start, end = query.initialOffset(), query.latestOffset()
    assert start == {"orders": {"0": 0, "1": 20}}
    assert end["orders"] == {"0": 100, "1": 50}
    assert planned(query, start, end) == [("orders", 0, 0, 100), ("orders", 1, 20, 50)]


def test_steps_without_new_records_have_equal_offsets(log: KnownLog) -> None:
    query = reader()
    end = query.latestOffset()
    planned(query, query.initialOffset(), end)
    assert query.latestOffset() == end
    assert planned(query, end, end) == []
    log.ranges["orders", 1] = OffsetRange(20, 60)
    following = query.latestOffset()
    assert following == {"orders": {"0": 100, "1": 60}}
    assert planned(query, end, following) == [("orders", 1, 50, 60)]


@pytest.mark.usefixtures("log")
def test_a_limit_divides_the_stream_into_steps() -> None:
    query = reader(maxOffsetsPerTrigger="65")
    start, steps = query.initialOffset(), []
    while (end := query.latestOffset()) != start:
        steps += planned(query, start, end)
        start = end
    assert steps == [
        ("orders", 0, 0, 50),
        ("orders", 1, 20, 35),
        ("orders", 0, 50, 100),
        ("orders", 1, 35, 50),
    ]


@pytest.mark.usefixtures("log")
def test_a_restarted_query_is_limited_from_its_checkpoint_on() -> None:
    """Spark before 4.2 passes the offset of the checkpoint as a step without records."""
    query = reader(maxOffsetsPerTrigger="10", startingOffsets="latest")
    kept = {"orders": {"0": 60, "1": 50}}
    assert planned(query, kept, kept) == []
    assert query.latestOffset() == {"orders": {"0": 70, "1": 50}}


def test_a_query_that_is_killed_in_its_first_step_repeats_it(log: KnownLog) -> None:
    """Spark does not keep where a query began; the latest offsets are others by then."""
    killed = reader(startingOffsets="latest")
    killed.initialOffset()
    log.ranges["orders", 0] = OffsetRange(0, 110)
    end = killed.latestOffset()
    log.ranges["orders", 0] = OffsetRange(0, 200)
    restarted = reader(startingOffsets="latest")
    start = restarted.initialOffset()
    assert planned(restarted, start, end) == [("orders", 0, 100, 110)]
    following = restarted.latestOffset()
    assert planned(restarted, end, following) == [("orders", 0, 110, 200)]
    assert list(following) == ["orders"]


def test_new_partitions_and_topics_are_read_from_their_start(log: KnownLog) -> None:
    query = reader(subscribe="", subscribePattern="orders.*")
    end = query.latestOffset()
    planned(query, query.initialOffset(), end)
    log.ranges["orders", 2] = OffsetRange(3, 9)
    log.ranges["orders.dead", 0] = OffsetRange(0, 4)
    following = query.latestOffset()
    assert planned(query, end, following) == [("orders", 2, 3, 9), ("orders.dead", 0, 0, 4)]


def test_a_deleted_partition_fails_the_query_or_is_left_out(log: KnownLog) -> None:
    start = {"orders": {"0": 100, "1": 50}}
    del log.ranges["orders", 1]
    with pytest.raises(DataLossFailure, match="orders-1 is gone"):
        reader().latestOffset(start)
    log.ranges["orders", 0] = OffsetRange(0, 120)
    tolerant = reader(failOnDataLoss="false")
    end = tolerant.latestOffset(start)
    assert end == {"orders": {"0": 120}}
    assert planned(tolerant, start, end) == [("orders", 0, 100, 120)]


def test_a_deleted_topic_fails_the_query_or_is_left_out(log: KnownLog) -> None:
    log.ranges["facts", 0] = OffsetRange(0, 8)
    start = {"facts": {"0": 3}, "orders": {"0": 100, "1": 50}}
    del log.ranges["orders", 0], log.ranges["orders", 1]
    with pytest.raises(DataLossFailure, match="no topic orders"):
        reader(subscribe="orders,facts").latestOffset(start)
    tolerant = reader(subscribe="orders,facts", failOnDataLoss="false")
    end = tolerant.latestOffset(start)
    assert planned(tolerant, start, end) == [("facts", 0, 3, 8)]


def test_a_topic_that_was_created_again_is_a_loss(log: KnownLog) -> None:
    start = {"orders": {"0": 100, "1": 50}}
    log.ranges["orders", 0] = OffsetRange(0, 7)
    with pytest.raises(DataLossFailure, match=r"orders-0: read up to offset 100.*offset 7"):
        reader().latestOffset(start)
    tolerant = reader(failOnDataLoss="false")
    end = tolerant.latestOffset(start)
    assert planned(tolerant, start, end) == []
    log.ranges["orders", 0] = OffsetRange(0, 9)
    assert planned(tolerant, end, tolerant.latestOffset(end)) == [("orders", 0, 7, 9)]
