"""What a batch query reads of a log, by its options."""

import pytest

from tests.spark.known_log import KnownLog
from wirekafka.reader.problems import UnknownLog
from wirekafka.reader.source import OffsetRange
from wirekafka.spark.offsets import OffsetSpan
from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.options import batch_options
from wirekafka.spark.plan import DataLossFailure, QueryPlan

LOG = {"orders": [(0, 100), (20, 50)], "orders.dead": [(0, 10)], "facts": [(5, 5)]}


def plan(log: KnownLog | None = None, **options: str) -> QueryPlan:
    given = {"path": "/data", "subscribe": "orders"} | options
    if {"subscribePattern", "assign"} & set(options):
        del given["subscribe"]
    return QueryPlan(log or KnownLog(**LOG), batch_options(given))


def spans(of: QueryPlan) -> list[tuple[str, int, int, int]]:
    available = of.offsets(of.partitions())
    return [tuple(each) for each in of.spans(of.starts(available), of.ends(available))]


def test_everything_between_the_ends_is_read() -> None:
    assert spans(plan()) == [("orders", 0, 0, 100), ("orders", 1, 20, 50)]


def test_an_expression_matches_whole_names() -> None:
    found = plan(subscribePattern="orders.*|fact").partitions()
    assert {topic for topic, _ in found} == {"orders", "orders.dead"}


def test_assigned_partitions_are_read_alone() -> None:
    assert spans(plan(assign='{"orders": [1]}')) == [("orders", 1, 20, 50)]
    with pytest.raises(UnknownLog, match="orders has no partition 7"):
        plan(assign='{"orders": [1, 7]}').partitions()


def test_an_unknown_topic_fails_a_batch() -> None:
    with pytest.raises(UnknownLog, match="no topic others"):
        plan(subscribe="others").partitions()


def test_offsets_bound_what_is_read() -> None:
    found = plan(
        startingOffsets='{"orders": {"0": 40, "1": -2}}',
        endingOffsets='{"orders": {"0": -1, "1": 30}}',
    )
    assert spans(found) == [("orders", 0, 40, 100), ("orders", 1, 20, 30)]


def test_times_bound_what_is_read() -> None:
    found = plan(startingTimestamp="305", endingTimestamp="600")
    assert spans(found) == [("orders", 0, 31, 60), ("orders", 1, 31, 50)]


def test_a_start_after_the_newest_record_is_an_error_or_the_end() -> None:
    with pytest.raises(OptionError, match="orders-1 has no record of time 700 or later"):
        spans(plan(startingTimestamp="700"))
    late = plan(startingTimestamp="700", startingOffsetsByTimestampStrategy="latest")
    assert spans(late) == [("orders", 0, 70, 100)]


def test_offsets_are_needed_for_each_partition() -> None:
    with pytest.raises(OptionError, match="startingOffsets: nothing for orders-1"):
        spans(plan(startingOffsets='{"orders": {"0": 1}}'))
    with pytest.raises(OptionError, match="endingOffsets: facts-0 is not read"):
        spans(plan(endingOffsets='{"orders": {"0": 1, "1": 1}, "facts": {"0": 1}}'))


def test_offsets_that_are_gone_fail_the_query_or_are_left_out() -> None:
    span, available = OffsetSpan("orders", 1, 5, 60), OffsetRange(20, 50)
    with pytest.raises(DataLossFailure, match=r"offset 5 is gone.*failOnDataLoss"):
        plan().without_lost_offsets(span, available)
    with pytest.raises(DataLossFailure, match="offset 60 is beyond the end"):
        plan().without_lost_offsets(span._replace(start_offset=20), available)
    kept = plan(failOnDataLoss="false").without_lost_offsets(span, available)
    assert kept == OffsetSpan("orders", 1, 20, 50)


def test_splits_are_as_many_and_as_small_as_the_options_say() -> None:
    span = [OffsetSpan("orders", 0, 0, 100)]
    assert len(plan().splits(span)) == 1
    assert len(plan(minPartitions="3").splits(span)) >= 3
    sizes = [
        split.end_offset - split.start_offset
        for split in plan(maxRecordsPerPartition="30").splits(span)
    ]
    assert sizes == [30, 30, 30, 10]
