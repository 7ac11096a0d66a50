"""The batch query of the data source: all its tasks are planned at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from wirekafka.spark import tasks
from wirekafka.spark.access import open_log
from wirekafka.spark.filter_bounds import FilterBounds
from wirekafka.spark.options import Options
from wirekafka.spark.plan import QueryPlan


class BatchReader(DataSourceReader):
    """Plans and reads a batch query."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bounds = FilterBounds()

    def partitions(self) -> list[InputPartition]:
        """One task for each split between the starting and the ending offsets."""
        with open_log(self._options) as log:
            plan = QueryPlan(log, self._options)
            chosen = self._bounds.partitions(plan.partitions())
            available = plan.offsets(chosen)
            spans = plan.spans(plan.starts(available), plan.ends(available))
            spans = [
                plan.without_lost_offsets(span, available[span.topic, span.partition])
                for span in spans
            ]
            spans = self._bounds.narrowed(spans, log, self._options.isolation)
            return [tasks.Task(split) for split in plan.splits(spans)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's split."""
        return tasks.read(partition, self._options)


class FilteredBatchReader(BatchReader):
    """A batch query that Spark offers its filters: they bound what is read.

    Spark 4.1 and later fail if a reader has `pushFilters` while they are not to push filters.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take bounds from the filters; Spark applies all filters to the rows nevertheless."""
        for each in filters:
            self._bounds.add(each)
            yield each
