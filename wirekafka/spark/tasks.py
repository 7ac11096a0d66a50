"""What the tasks of a query do: read splits as Arrow, in processes of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from wirekafka.reader.problems import DataLost, UnknownLog
from wirekafka.reader.source import Split
from wirekafka.replication.reader_names import SOURCE_PREFIX
from wirekafka.spark.access import open_log, read_split
from wirekafka.spark.options import Options

_QUERY = "sql.streaming.queryId"
_log = logging.getLogger(__name__)


class Task(InputPartition):
    """A split of a log, for one task of Spark."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


def named_by_query(options: Options) -> Options:
    """The options with a client id by which a broker knows the query, unless they have one."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    if query is None or "client.id" in options.client:
        return options
    return replace(options, client={**options.client, "client.id": SOURCE_PREFIX + query})


def read(task: InputPartition, options: Options) -> Iterator[pa.RecordBatch]:
    """Read the split of a task; lost records fail the task, or are left out and logged."""
    if not isinstance(task, Task):
        return  # Spark has a task without an input where there is nothing to read.
    left: Split | None = task.split
    with open_log(options) as log:
        while left is not None:
            try:
                yield from read_split(log, left, options)
                return
            except (DataLost, UnknownLog) as lost:
                if options.fails_on_data_loss:
                    raise
                _log.warning("left out: %s", lost)
                left = _after(left, lost)


def _after(split: Split, lost: DataLost | UnknownLog) -> Split | None:
    """The rest of a split behind lost records; None if nothing is left."""
    if isinstance(lost, UnknownLog) or lost.end_offset >= split.end_offset:
        return None
    return replace(split, start_offset=max(lost.end_offset, split.start_offset + 1))
