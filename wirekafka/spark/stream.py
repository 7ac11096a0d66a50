"""The streaming query of the data source: its offsets, and the tasks of each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wirekafka.reader.source import OffsetRange
from wirekafka.reader.wire_log import WireLog
from wirekafka.spark import tasks
from wirekafka.spark.access import StoredLog, open_log
from wirekafka.spark.offsets import (
    OffsetSpan,
    Positions,
    TopicPartition,
    from_json,
    limited,
    to_json,
)
from wirekafka.spark.options import Options
from wirekafka.spark.plan import QueryPlan

START = "start of the stream"
"""A member of the offsets after the first step: where it began. No topic has such a name.

Spark does not keep the initial offsets. A query that is killed in its first step has to read the
step again from where it began, not from the latest offsets of then.
"""

Json = dict[str, Any]


class StreamReader(DataSourceStreamReader):
    """Plans the steps of a stream in one process of the driver, and reads them in tasks.

    The offsets after a step are {"orders": {"0": 12}}, as Spark's kafka format has them.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._log: StoredLog | WireLog | None = None
        self._initial: Positions | None = None
        self._planned: Json | None = None
        """The end of the last step: Spark before 4.2 does not say from where the next one is."""

    def __getstate__(self) -> Json:
        return self.__dict__ | {"_log": None}

    def initialOffset(self) -> Json:
        """Where a query without a checkpoint begins; the same offsets at every call."""
        return to_json(self._starts())

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """The end of the next step, at most `maxOffsetsPerTrigger` offsets away from its start.

        Spark before 4.2 calls it without arguments.
        """
        return self._end_of_step(start or self._planned, self._options.max_offsets_per_trigger)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """The tasks of a step. Spark before 4.2 calls it with two equal offsets at a restart."""
        self._planned = end
        if start == end:
            return []
        began = end.get(START)
        spans = self._spans(_plain(start if began is None else began), _plain(end))
        return [tasks.Task(split) for split in self._plan().splits(spans)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's split, as a client that has the id of the query in its name."""
        return tasks.read(partition, tasks.named_by_query(self._options))

    def commit(self, end: Json) -> None:
        """Spark keeps the offsets in its checkpoint."""

    def stop(self) -> None:
        """Close the connections of the planning process."""
        if self._log is not None:
            self._log.close()

    def _end_of_step(self, start: Json | None, limit: int | None) -> Json:
        """Encode the end of a step; the start itself if there is nothing new."""
        begin = self._starts() if start is None else _plain(start)
        available = self._available()
        self._check(begin, available)
        ends = {each: offsets.end_offset for each, offsets in available.items()}
        if limit is not None:
            firsts = {each: offsets.start_offset for each, offsets in available.items()}
            ends = limited(firsts | begin, ends, limit)
        if ends == begin:
            return to_json(begin) if start is None else start
        is_first = begin == self._initial
        return to_json(ends) | ({START: to_json(begin)} if is_first else {})

    def _available(self) -> dict[TopicPartition, OffsetRange]:
        plan = self._plan()
        return plan.offsets(plan.present_partitions())

    def _check(self, begin: Positions, available: Mapping[TopicPartition, OffsetRange]) -> None:
        """Deleted partitions, and partitions whose end went back, are a loss of data."""
        for (topic, partition), offset in sorted(begin.items()):
            offsets = available.get((topic, partition))
            if offsets is None:
                self._plan().lose(f"{topic}-{partition} is gone")
            elif offsets.end_offset < offset:
                self._plan().lose(
                    f"{topic}-{partition}: read up to offset {offset}, but the log ends at"
                    f" offset {offsets.end_offset}"
                )

    def _spans(self, begin: Positions, ends: Positions) -> list[OffsetSpan]:
        """What a step reads: new partitions from their first offset on."""
        plan = self._plan()
        new = set(ends) - set(begin)
        if new:
            present = new & set(plan.present_partitions())
            for topic, partition in sorted(new - present):
                plan.lose(f"{topic}-{partition} is gone")
            begin = begin | {each: o.start_offset for each, o in plan.offsets(present).items()}
        # Such a step would have its records read twice by the next.
        for (topic, partition), end in sorted(ends.items()):
            start = begin.get((topic, partition), end)
            if end < start:
                plan.lose(f"{topic}-{partition}: read up to offset {start}, the log ends at {end}")
        return plan.spans(begin, {each: end for each, end in ends.items() if each in begin})

    def _starts(self) -> Positions:
        if self._initial is None:
            plan = self._plan()
            self._initial = plan.starts(plan.offsets(plan.partitions()))
        return self._initial

    def _plan(self) -> QueryPlan:
        if self._log is None:
            self._log = open_log(self._options)
        return QueryPlan(self._log, self._options)


def _plain(offsets: Mapping[str, Any]) -> Positions:
    return from_json({topic: each for topic, each in offsets.items() if topic != START})
