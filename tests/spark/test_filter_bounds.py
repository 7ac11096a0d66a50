"""Filters of Spark that bound what is read."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.spark.known_log import KnownLog
from wirekafka.spark.filter_bounds import FilterBounds
from wirekafka.spark.offsets import OffsetSpan


@dataclass
class Comparison:
    """A filter as Spark 4.1 and later passes it; its kind is the name of its class."""

    attribute: tuple[str, ...]
    value: Any = None


KINDS = {
    name: type(name, (Comparison,), {})
    for name in (
        "EqualTo",
        "GreaterThan",
        "GreaterThanOrEqual",
        "LessThan",
        "LessThanOrEqual",
        "In",
        "IsNotNull",
        "Not",
    )
}
SPANS = [OffsetSpan("a", 0, 0, 100), OffsetSpan("a", 1, 50, 90)]


def bounded(*filters: tuple[str, str, Any]) -> list[tuple[str, int, int, int]]:
    bounds = FilterBounds()
    for column, kind, value in filters:
        bounds.add(KINDS[kind]((column,), value))
    kept = bounds.partitions((span.topic, span.partition) for span in SPANS)
    spans = [span for span in SPANS if (span.topic, span.partition) in kept]
    log = KnownLog(a=[(0, 100), (50, 90)])
    return [tuple(each) for each in bounds.narrowed(spans, log, "read_committed")]


def test_filters_of_other_columns_and_kinds_bound_nothing() -> None:
    filters = [("value", "EqualTo", b"x"), ("offset", "IsNotNull", None), ("offset", "Not", 5)]
    assert bounded(*filters) == [tuple(span) for span in SPANS]


def test_topics_and_partitions_are_chosen() -> None:
    assert bounded(("partition", "EqualTo", 1)) == [("a", 1, 50, 90)]
    assert bounded(("topic", "In", ["b", "c"])) == []
    assert bounded(("partition", "In", [0, 1]), ("partition", "In", [1, 2])) == [("a", 1, 50, 90)]


def test_offsets_are_bounded_on_both_sides() -> None:
    filters = [("offset", "GreaterThan", 59), ("offset", "LessThanOrEqual", 79)]
    assert bounded(*filters) == [("a", 0, 60, 80), ("a", 1, 60, 80)]
    assert bounded(("offset", "EqualTo", 10)) == [("a", 0, 10, 11)]
    assert bounded(("offset", "In", [95, 97])) == [("a", 0, 95, 98)]


def test_times_are_bounded_below_alone() -> None:
    """Records may be out of the order of time: a later record may be older."""
    time = datetime.fromtimestamp(0.7005, UTC)
    assert bounded(("timestamp", "GreaterThanOrEqual", time)) == [
        ("a", 0, 70, 100),
        ("a", 1, 70, 90),
    ]
    assert bounded(("timestamp", "LessThan", time)) == [tuple(span) for span in SPANS]
    late = datetime.fromtimestamp(0.95, UTC)
    assert bounded(("timestamp", "GreaterThan", late)) == [("a", 0, 95, 100)]


def test_records_without_a_time_are_kept() -> None:
    """Their time is -1, which no search by time finds."""
    early = datetime.fromtimestamp(-5, UTC)
    assert bounded(("timestamp", "GreaterThan", early)) == [tuple(span) for span in SPANS]
