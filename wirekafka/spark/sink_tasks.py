"""What the tasks of a writing query do: encode their rows, or send them at once."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from wirekafka.client.client import Client
from wirekafka.client.delivery import Place
from wirekafka.client.producer import IdempotentProducer
from wirekafka.spark.record_group import RecordGroup
from wirekafka.spark.sink_client import retried, sink_client
from wirekafka.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from wirekafka.spark.record_groups import RecordGroups

_QUERY, _RUN = "sql.streaming.queryId", "spark.jobGroup.id"
_BATCH = "streaming.sql.batchId"
"""Local properties of Spark's tasks of a streaming query."""


@dataclass(frozen=True)
class Begin:
    """What a batch of a stream saw when it began, before its tasks."""

    run: str | None
    """The run of the marker; None if there was no marker."""
    driver: str
    """The host, and the process of Spark's driver that starts the batch's writer."""


@dataclass(frozen=True)
class TaskRecords(WriterCommitMessage):
    """What a task has encoded, for the process on the driver that sends all of it."""

    groups: list[RecordGroup] = field(repr=False)
    begun: Begin | None = None
    query: str = ""
    run: str = ""

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(group.records for group in self.groups)


@dataclass(frozen=True)
class SentRecords(WriterCommitMessage):
    """How many records a task has sent by itself."""

    records: int


def encode(
    rows: Iterable[pa.RecordBatch], options: SinkOptions, begun: Begin | None = None
) -> TaskRecords:
    """Encode a task's rows; brokers are asked for the topics' partitions only."""
    context = _context()
    with sink_client(options) as client:
        encoder = _encoder(options, client, context)
        groups = [group for each in encoder.rounds(rows) for group in each]
    query, run = context.getLocalProperty(_QUERY), context.getLocalProperty(_RUN)
    return TaskRecords(groups, begun, query or "", run or "")


def send(rows: Iterable[pa.RecordBatch], options: SinkOptions) -> SentRecords:
    """Send a task's rows, each once but again if the task is run again."""
    count = 0
    with sink_client(options) as client:
        producer = IdempotentProducer(client)
        for groups in _encoder(options, client, _context()).rounds(rows):
            if not count:
                retried(client, producer.init)
            producer.send_batches({group.place: group.batches for group in groups})
            count += sum(group.records for group in groups)
    return SentRecords(count)


def _encoder(options: SinkOptions, client: Client, context: TaskContext) -> RecordGroups:
    # Imported only now: Spark starts processes for each commit, which encode nothing.
    from wirekafka.spark.record_groups import RecordGroups, TopicPartitionCounts

    # Tasks and batches begin with different partitions, and repeated tasks with the same.
    turn = zlib.crc32(f"{context.getLocalProperty(_BATCH)} {context.partitionId()}".encode())
    return RecordGroups(options, TopicPartitionCounts(client).of, first_without_key=turn)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "called in a task"
    return context


def by_partition(tasks: Iterable[TaskRecords]) -> dict[Place, list[bytes]]:
    """The batches of each partition: tasks in order, each task's batches in order."""
    found: dict[Place, list[bytes]] = {}
    for task in tasks:
        for group in task.groups:
            found.setdefault(group.place, []).extend(group.batches)
    return found
