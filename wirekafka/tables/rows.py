"""Rows of one partition as Arrow record batches, in the format of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.codec.batch import Buffer
from wirekafka.tables.bodies import LARGEST_BATCH_RECORDS, Bodies, next_bodies, reencoded
from wirekafka.tables.columns import (
    ArrowColumn,
    Decoded,
    HeaderLists,
    Numbers,
    Octets,
    Text,
    microseconds,
    timestamp_types_of,
    timestamps_of,
)
from wirekafka.tables.fields import decode_fields
from wirekafka.tables.headers import decode_headers
from wirekafka.tables.scan import Batches, DamagedBatch
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
_ROW_BYTES = 28
"""The size of a row without key, value, topic and headers."""


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

    A caller adds batches until `is_full`, takes, and goes on where `add` has stopped. Their buffers
    are kept up to then, and must not change: Arrow copies keys and values once, by `take`.
    `size_bytes` is about the memory that is kept.
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
        names = self.schema.names
        self._columns = [_column(name, topic, partition) for name in names]
        self._has_headers = HEADERS.name in names
        self._keeps_data = not {"key", "value", HEADERS.name}.isdisjoint(names)
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
        arrays = [column.take(self.count) for column in self._columns]
        self.count = self.size_bytes = 0
        self._is_crowded = False
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _append(
        self, data: Buffer, batches: NDArray[np.void], start_offset: int, end_offset: int
    ) -> int:
        """Add the records of the first batches; returns of how many."""
        bodies = next_bodies(data, batches, self.limit_rows - self.count)
        if self.count and not self._has_room(bodies):
            self._is_crowded = True
            return 0
        try:
            records = self._decoded(bodies, start_offset, end_offset)
        except Unusual:
            bodies = reencoded(data, bodies.batches)
            records = self._decoded(bodies, start_offset, end_offset)
        if len(records):
            for column in self._columns:
                column.add(records)
            self.count += len(records)
            self.size_bytes += len(bodies.data) if self._keeps_data else _ROW_BYTES * len(records)
        return len(bodies.batches)

    def _has_room(self, bodies: Bodies) -> bool:
        """Whether a column can hold the records of the bodies, too."""
        count = int(bodies.batches["count"].sum(dtype=np.int64))
        return (
            self.size_bytes + len(bodies.data) <= _LARGEST_COLUMN_BYTES
            and self.count + count <= LARGEST_BATCH_RECORDS
        )

    def _decoded(self, bodies: Bodies, start_offset: int, end_offset: int) -> Decoded:
        """The records of the bodies inside of the range. Raises Unusual."""
        data, batches = bodies.data, bodies.batches
        counts = batches["count"].astype(np.int64)
        fields = decode_fields(data, bodies.starts, bodies.stops, counts)
        offsets = batches["base_offset"][fields.batches] + fields.offset_deltas
        if len(offsets) and not (offsets.min() >= start_offset and offsets.max() < end_offset):
            keep = (offsets >= start_offset) & (offsets < end_offset)
            fields, offsets = fields.where(keep), offsets[keep]
        headers = None
        if self._has_headers and len(fields):
            headers = decode_headers(BufferViews.of(data), fields.headers, fields.ends)
        return Decoded(data, batches, fields, offsets, headers)


def _column(name: str, topic: str, partition: int) -> ArrowColumn:
    match name:
        case "key":
            return Octets(lambda records: records.fields.keys)
        case "value":
            return Octets(lambda records: records.fields.values)
        case "topic":
            return Text(topic)
        case "partition":
            return Numbers(pa.int32(), lambda records: np.full(len(records), partition, np.int32))
        case "offset":
            return Numbers(pa.int64(), lambda records: records.offsets)
        case "timestamp":
            return Numbers(pa.timestamp("us", tz="UTC"), timestamps_of, microseconds)
        case "timestampType":
            return Numbers(pa.int32(), timestamp_types_of)
        case _:
            return HeaderLists()
