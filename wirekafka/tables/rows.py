"""Rows of one partition as Arrow record batches, in the format of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.codec.batch import LOG_APPEND_TIME_BIT, Buffer
from wirekafka.codec.message_set import NO_TIMESTAMP_TYPE
from wirekafka.tables.bodies import Bodies, next_bodies, reencoded
from wirekafka.tables.columns import binary_column, header_column, timestamp_column
from wirekafka.tables.fields import Fields, decode_fields
from wirekafka.tables.headers import decode_headers
from wirekafka.tables.scan import Batches, DamagedBatch, Int64s
from wirekafka.tables.varints import BufferViews, Unusual

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""The columns of Spark's `kafka` format."""

HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
"""The column that Spark's `includeHeaders` appends; null for records without headers."""

NO_LIMIT = (1 << 63) - 1

_LARGEST_COLUMN_BYTES = (1 << 31) - 1
"""The most bytes that a column's 32-bit offsets can address."""


def schema(columns: Sequence[str] | None = None, *, headers: bool = False) -> pa.Schema:
    """The schema of the chosen columns, in their order; None chooses all but the headers.

    `headers` appends the headers if `columns` has not named them. Raises ValueError for a name
    that is no column, and for no columns: rows without columns could not be counted.
    """
    known = {field.name: field for field in (*SCHEMA, HEADERS)}
    names = list(SCHEMA.names if columns is None else columns)
    if headers and HEADERS.name not in names:
        names.append(HEADERS.name)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no column {', '.join(unknown)}: the columns are {', '.join(known)}")
    if not names:
        raise ValueError("no column is chosen")
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice in {', '.join(names)}")
    return pa.schema([known[name] for name in names])


class Rows:
    """Collects the records of whole batches of one partition, until `take` has them as Arrow.

    A caller adds batches until `is_full`, takes, and goes on where `add` has stopped. Buffers may
    be used anew once `add` has returned: the rows are copies.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        limit_rows: int = 1 << 17,
        limit_bytes: int = 64 << 20,
    ):
        self.schema = schema(columns, headers=headers)
        self.limit_rows = limit_rows
        self.limit_bytes = limit_bytes
        self.count = 0
        self.size_bytes = 0
        self._topic = topic
        self._partition = partition
        self._parts: list[pa.RecordBatch] = []
        self._is_crowded = False

    @property
    def is_full(self) -> bool:
        """Whether the rows are to be taken before more are added."""
        return (
            self.count >= self.limit_rows or self.size_bytes >= self.limit_bytes or self._is_crowded
        )

    def add(
        self, batches: Batches, start_offset: int = 0, end_offset: int = NO_LIMIT, *, first: int = 0
    ) -> int:
        """Add the records with offsets from `start_offset` up to, excluding, `end_offset`.

        Begins with the batch of the index `first`, and returns the index of the batch to go on
        with: it ends after the batch that makes the rows full, and ahead of a batch whose records
        contradict its header or cannot be inflated. Raises DamagedBatch, with the position in the
        buffer, if there is such a batch ahead of any record to add. Control batches are left out.
        """
        rows = batches.table[first:]
        wanted = (rows["end_offset"] > start_offset) & (rows["base_offset"] < end_offset)
        wanted &= ~batches.control[first:]
        (chosen,) = wanted.nonzero()
        rows = rows[chosen]
        done = 0
        while done < len(rows) and not self.is_full:
            try:
                done += self._append(batches.data, rows[done:], start_offset, end_offset)
            except DamagedBatch:
                if not done:
                    raise
                break
        return first + int(chosen[done]) if done < len(rows) else len(batches)

    def take(self) -> pa.RecordBatch:
        """The rows added since the last time, which may be none."""
        parts, self._parts = self._parts, []
        self.count = self.size_bytes = 0
        self._is_crowded = False
        if len(parts) == 1:
            return parts[0]
        columns = [
            pa.concat_arrays([part.column(index) for part in parts])
            if parts
            else pa.array([], field.type)
            for index, field in enumerate(self.schema)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _append(
        self, data: Buffer, rows: NDArray[np.void], start_offset: int, end_offset: int
    ) -> int:
        """Add the records of the first batches; returns of how many."""
        bodies = next_bodies(data, rows, self.limit_rows - self.count)
        if self._parts and self.size_bytes + len(bodies.data) > _LARGEST_COLUMN_BYTES:
            self._is_crowded = True
            return 0
        try:
            part = self._part(bodies, start_offset, end_offset)
        except Unusual:
            bodies = reencoded(data, bodies.rows)
            part = self._part(bodies, start_offset, end_offset)
        if part.num_rows:
            self._parts.append(part)
            self.count += part.num_rows
            self.size_bytes += part.nbytes
        return len(bodies.rows)

    def _part(self, bodies: Bodies, start_offset: int, end_offset: int) -> pa.RecordBatch:
        rows, data = bodies.rows, bodies.data
        counts = rows["count"].astype(np.int64)
        fields = decode_fields(data, bodies.starts, bodies.stops, counts)
        offsets = rows["base_offset"][fields.batches] + fields.offset_deltas
        if len(offsets) and not (start_offset <= offsets.min() and offsets.max() < end_offset):
            keep = (start_offset <= offsets) & (offsets < end_offset)
            fields, offsets = fields.where(keep), offsets[keep]
        make: dict[str, Callable[[], pa.Array]] = {
            "key": lambda: binary_column(data, fields.keys),
            "value": lambda: binary_column(data, fields.values),
            "topic": lambda: pa.repeat(pa.scalar(self._topic), len(fields)),
            "partition": lambda: pa.repeat(pa.scalar(self._partition, pa.int32()), len(fields)),
            "offset": lambda: pa.array(offsets),
            "timestamp": lambda: timestamp_column(_timestamps(rows, fields)),
            "timestampType": lambda: pa.array(_timestamp_types(rows)[fields.batches]),
            "headers": lambda: _headers(data, fields),
        }
        columns = [make[name]() for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _timestamps(rows: NDArray[np.void], fields: Fields) -> Int64s:
    """The timestamps of records in ms: the broker's time of the batch, or the producer's."""
    has_append_time = (rows["attributes"] & LOG_APPEND_TIME_BIT) != 0
    times = np.where(has_append_time, rows["max_timestamp"], rows["base_timestamp"])
    timestamps: Int64s = times[fields.batches]
    if has_append_time.any():
        timestamps += np.where(has_append_time[fields.batches], 0, fields.timestamp_deltas)
    else:
        timestamps += fields.timestamp_deltas
    return timestamps


def _timestamp_types(rows: NDArray[np.void]) -> NDArray[np.int32]:
    types: NDArray[np.int32] = ((rows["attributes"] & LOG_APPEND_TIME_BIT) != 0).astype(np.int32)
    types[rows["magic"] == 0] = NO_TIMESTAMP_TYPE
    return types


def _headers(data: bytes | memoryview, fields: Fields) -> pa.Array:
    if not len(fields):
        return pa.array([], HEADERS.type)
    return header_column(data, decode_headers(BufferViews.of(data), fields.headers, fields.ends))
