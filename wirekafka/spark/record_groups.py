"""Rows of a task as finished record batches of their partitions, in the order of the rows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirekafka.client.client import Client
from wirekafka.codec.record import BatchOptions
from wirekafka.spark.record_group import RecordGroup
from wirekafka.spark.sink_client import topic_of
from wirekafka.spark.sink_options import SinkOptions
from wirekafka.tables.key_partitions import partitions_of
from wirekafka.tables.record_batches import encoded_groups
from wirekafka.tables.scan import Int64s

ROUND_BYTES = 16 << 20
"""Rows of about this size are divided among partitions at once."""
_COLUMNS = ("topic", "partition", "key", "value", "headers", "timestamp")


class UnfitRow(ValueError):
    """A row that cannot be a record; it fails the task."""


class TopicPartitionCounts:
    """How many partitions each topic has, requested once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._counts: dict[str, int] = {}

    def of(self, topic: str) -> int:
        """The number of a topic's partitions; brokers may create the topic. Raises CliError."""
        if topic not in self._counts:
            self._counts[topic] = len(topic_of(self._client, topic).partitions)
        return self._counts[topic]


class RecordGroups:
    """Divides the rows of a task among partitions, and encodes them."""

    def __init__(
        self, options: SinkOptions, count_of: Callable[[str], int], *, first_without_key: int
    ) -> None:
        self._options, self._count_of = options, count_of
        self._first_without_key = first_without_key
        self._batch_options = BatchOptions(
            compression=options.compression,
            level=options.level,
            is_transactional=options.is_exactly_once,
        )

    def rounds(self, rows: Iterable[pa.RecordBatch]) -> Iterator[list[RecordGroup]]:
        """Encode all rows, about ROUND_BYTES at once. Raises UnfitRow, CliError."""
        for table in _tables(rows):
            yield list(self._of(table))

    def _of(self, table: pa.Table) -> Iterator[RecordGroup]:
        names, topics = self._topics(table)
        places = np.empty(len(table), np.int64)
        for number, name in enumerate(names):
            where = slice(None) if len(names) == 1 else (topics == number).nonzero()[0]
            chosen = table if len(names) == 1 else table.take(where)
            # The number of a partition is an int32.
            places[where] = self._partitions(name, chosen) + (number << 32)
        times = _times(table)
        order = np.argsort(places, kind="stable")
        found, starts = np.unique(places[order], return_index=True)
        if len(found) > 1:
            table, times = table.take(order), times[order]
        batches: dict[int, list[bytes]] = defaultdict(list)
        for group, batch in encoded_groups(
            _column(table, "key"),
            table.column("value"),
            times,
            _headers(table),
            group_starts=starts,
            most_bytes=self._options.batch_bytes,
            options=self._batch_options,
        ):
            batches[group].append(batch)
        counts = np.diff(starts, append=len(table)).tolist()
        for group, (code, count) in enumerate(zip(found.tolist(), counts, strict=True)):
            place = (names[code >> 32], code & 0xFFFFFFFF)
            yield RecordGroup(place, count, batches[group])

    def _topics(self, table: pa.Table) -> tuple[list[str], Int64s]:
        """The topics of the rows, and the number in this list of each row's topic."""
        if self._options.topic is not None:
            return [self._options.topic], np.zeros(len(table), np.int64)
        column = table.column("topic").combine_chunks()
        if column.null_count:
            raise UnfitRow("a row has no topic: the column topic is null, and there is no option")
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)

    def _partitions(self, topic: str, table: pa.Table) -> Int64s:
        """The partition of each row: as given, by the key, or of few for those without a key."""
        count = self._count_of(topic)
        keys = _column(table, "key")
        partitions = np.full(len(table), -1, np.int64)
        if keys.null_count < len(keys):
            partitions = partitions_of(keys, count)
        if keys.null_count:
            (missing,) = _nulls(keys).nonzero()
            partitions[missing] = self._without_key(table, len(missing), count)
        if "partition" in table.column_names:
            given = table.column("partition").combine_chunks()
            (chosen,) = (~_nulls(given)).nonzero()
            partitions[chosen] = given.drop_null().to_numpy()
            unknown = partitions[(partitions < 0) | (partitions >= count)]
            if len(unknown):
                raise UnfitRow(
                    f"a row has partition {unknown[0]}, but topic {topic} has {count} partitions"
                )
        return partitions

    def _without_key(self, table: pa.Table, missing: int, count: int) -> Int64s:
        """Blocks of rows in turn to partitions: to as many as there are batches to fill."""
        blocks = min(count, 1 + table.nbytes // self._options.batch_bytes)
        first = self._first_without_key
        self._first_without_key += blocks
        turns: Int64s = (first + np.arange(missing, dtype=np.int64) * blocks // missing) % count
        return turns


def _tables(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The columns of records, in tables of about ROUND_BYTES."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for each in rows:
        if not each.num_rows:
            continue
        batch = each.select([name for name in _COLUMNS if name in each.schema.names])
        if waiting and size_bytes + batch.nbytes > ROUND_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, size_bytes = [], 0
        waiting.append(batch)
        size_bytes += batch.nbytes
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _times(table: pa.Table) -> Int64s:
    """The time of each record in ms; now for rows without a time."""
    now_ms = time.time_ns() // 1_000_000
    if "timestamp" not in table.column_names:
        return np.full(len(table), now_ms, np.int64)
    column = table.column("timestamp").combine_chunks()
    times: Int64s = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    times = pc.fill_null(times, now_ms * 1000).to_numpy() // 1000
    if times.min() < 0:
        raise UnfitRow("a row has a timestamp before 1970, which Kafka does not accept")
    return times


def _headers(table: pa.Table) -> pa.Array | None:
    if "headers" not in table.column_names:
        return None
    headers = table.column("headers").combine_chunks()
    if pc.struct_field(headers.flatten(), 0).null_count:
        raise UnfitRow("a row has a header without a key")
    return headers


def _column(table: pa.Table, name: str) -> pa.Array:
    if name in table.column_names:
        return table.column(name).combine_chunks()
    return pa.nulls(len(table), pa.binary())


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found
