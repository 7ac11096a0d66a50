"""What the filters of a query say of topics, partitions, offsets and times, before reading."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from wirekafka.reader.source import Isolation
from wirekafka.reader.wire_log import WireLog
from wirekafka.spark.access import StoredLog
from wirekafka.spark.offsets import OffsetSpan, TopicPartition

_ONE_MS_US = 1_000


class FilterBounds:
    """Bounds of what a query can return: a row beyond them does not pass all of its filters."""

    def __init__(self) -> None:
        self._topics: set[str] | None = None
        self._partitions: set[int] | None = None
        self._start_offset = 0
        self._end_offset: int | None = None
        self._start_ms: int | None = None

    def add(self, each: Any) -> None:
        """Take a filter of Spark's into account; filters of other kinds bound nothing."""
        kind = type(each).__name__
        column = ".".join(each.attribute) if hasattr(each, "attribute") else ""
        values: list[Any] = each.value if kind == "In" else [getattr(each, "value", None)]
        if not values or None in values:
            return
        match column, kind:
            case "topic", "EqualTo" | "EqualNullSafe" | "In":
                self._topics = _both(self._topics, values)
            case "partition", "EqualTo" | "EqualNullSafe" | "In":
                self._partitions = _both(self._partitions, values)
            case "offset", "In":
                self._bound_offsets(min(values), max(values) + 1)
            case "offset", "EqualTo" | "EqualNullSafe":
                self._bound_offsets(values[0], values[0] + 1)
            case "offset", "GreaterThan":
                self._bound_offsets(values[0] + 1, None)
            case "offset", "GreaterThanOrEqual":
                self._bound_offsets(values[0], None)
            case "offset", "LessThan":
                self._bound_offsets(0, values[0])
            case "offset", "LessThanOrEqual":
                self._bound_offsets(0, values[0] + 1)
            case "timestamp", "GreaterThan" | "GreaterThanOrEqual" | "EqualTo" | "EqualNullSafe":
                # Times need not ascend with offsets: they have no bound above.
                start_ms = _milliseconds(values[0])
                self._start_ms = max(self._start_ms or start_ms, start_ms)

    def partitions(self, chosen: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions within the bounds."""
        return [
            (topic, partition)
            for topic, partition in chosen
            if (self._topics is None or topic in self._topics)
            and (self._partitions is None or partition in self._partitions)
        ]

    def narrowed(
        self, spans: Iterable[OffsetSpan], log: StoredLog | WireLog, isolation: Isolation
    ) -> list[OffsetSpan]:
        """The spans within the bounds of offsets and time."""
        found = [self._narrowed(span) for span in spans]
        found = [span for span in found if span.size > 0]
        # A record without a time has time -1, which no search by time finds.
        if self._start_ms is None or self._start_ms <= 0 or not found:
            return found
        times = {(span.topic, span.partition): self._start_ms for span in found}
        starts = log.offsets_for_times(times, isolation=isolation)
        late = [
            span._replace(start_offset=max(span.start_offset, start))
            for span in found
            if (start := starts[span.topic, span.partition]) is not None
        ]
        return [span for span in late if span.size > 0]

    def _narrowed(self, span: OffsetSpan) -> OffsetSpan:
        end = span.end_offset if self._end_offset is None else self._end_offset
        return span._replace(
            start_offset=max(span.start_offset, self._start_offset),
            end_offset=min(span.end_offset, end),
        )

    def _bound_offsets(self, start: int, end: int | None) -> None:
        self._start_offset = max(self._start_offset, start)
        if end is not None:
            self._end_offset = end if self._end_offset is None else min(self._end_offset, end)


def _both(known: set[Any] | None, values: Iterable[Any]) -> set[Any]:
    return set(values) if known is None else known & set(values)


def _milliseconds(value: datetime) -> int:
    """A time of Spark's in ms, rounded down; a time without zone is one of this machine's zone."""
    return int(value.timestamp() * 1_000_000) // _ONE_MS_US
