"""The writers of the data source, as Spark calls them in tasks and in processes of the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from wirekafka.spark import batch_commit, sink_tasks
from wirekafka.spark.sink_options import SinkOptions
from wirekafka.spark.sink_tasks import Begin, TaskRecords

if TYPE_CHECKING:
    import pyarrow as pa


class BatchSink(DataSourceArrowWriter):
    """The writer of a batch query: its tasks encode, the driver sends all or nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Encode a task's rows, or send them where the query is not exactly once."""
        if self._options.is_exactly_once:
            return sink_tasks.encode(iterator, self._options)
        return sink_tasks.send(iterator, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the records of all tasks in one transaction."""
        if self._options.is_exactly_once:
            batch_commit.write_all(self._options, _of_tasks(messages))


class StreamSink(DataSourceStreamWriter, DataSourceArrowWriter):
    """The writer of a stream's batches.

    Spark makes one in the driver for each batch, which goes to the tasks; and another one, from the
    data source of the run, to commit the batch.
    """

    def __init__(
        self, options: SinkOptions, *, begun: Begin | None = None, run_before: str | None = None
    ) -> None:
        self._options = options
        self._begun = begun
        self._run_before = run_before

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Encode a task's rows, or send them where the query is not exactly once."""
        if self._options.is_exactly_once:
            return sink_tasks.encode(iterator, self._options, self._begun)
        return sink_tasks.send(iterator, self._options)

    def commit(  # type: ignore[override]  # A stream's commits have a number.
        self, messages: Sequence[WriterCommitMessage | None], batchId: int
    ) -> None:
        """Write the batch with its marker in one transaction."""
        if self._options.is_exactly_once:
            tasks = _of_tasks(messages)
            batch_commit.commit(self._options, tasks, batchId, run_before=self._run_before)

    def abort(  # type: ignore[override]
        self, messages: Sequence[WriterCommitMessage | None], batchId: int
    ) -> None:
        """Abort what a commit has left open when its process died."""
        if self._options.is_exactly_once:
            batch_commit.abort(self._options, _of_tasks(messages))


def _of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskRecords]:
    """The messages of the tasks that have ended, in the order of the tasks."""
    return [message for message in messages if isinstance(message, TaskRecords)]
