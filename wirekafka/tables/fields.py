"""Decodes the fields of all records of many batches at once, without an object for each record."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from wirekafka.codec.record import SMALLEST_RECORD_BYTES
from wirekafka.tables.boundaries import record_positions
from wirekafka.tables.scan import Flags, Int64s
from wirekafka.tables.varints import BufferViews, Unusual, varints, varlongs


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where one field of each record lies in the buffer; a size below zero stands for null."""

    positions: Int64s
    sizes: Int64s

    def where(self, keep: Flags | Int64s) -> Places:
        """The places of the selected records."""
        return Places(self.positions[keep], self.sizes[keep])


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The records of batches in one buffer, field by field.

    `batches` has for each record the index of its batch, `headers` the position of the count of
    its headers, and `ends` the position after the record.
    """

    batches: Int64s
    timestamp_deltas: Int64s
    offset_deltas: Int64s
    keys: Places
    values: Places
    headers: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.batches)

    def where(self, keep: Flags) -> Fields:
        """The selected records."""
        (chosen,) = keep.nonzero()
        kept = []
        for each in fields(self):
            column: Int64s | Places = getattr(self, each.name)
            kept.append(column.where(chosen) if isinstance(column, Places) else column[chosen])
        return Fields(*kept)  # type: ignore[arg-type]  # In the order of the fields.


def decode_fields(
    data: bytes | memoryview, starts: Int64s, stops: Int64s, counts: Int64s
) -> Fields:
    """Decode the records of batches whose uncompressed bodies lie at `starts` to `stops`.

    Headers are not decoded. Raises Unusual unless each record fills the room up to the next, and
    each field lies inside of its record. Fast twin of `wirekafka.codec.record.decode_body`.
    """
    total = int(counts.sum())
    if len(counts) and (
        counts.min() < 0 or (counts * SMALLEST_RECORD_BYTES > stops - starts).any()
    ):
        raise Unusual
    if total == 0:
        if (starts != stops).any():
            raise Unusual
        nothing = np.empty(0, np.int64)
        places = Places(nothing, nothing)
        return Fields(nothing, nothing, nothing, places, places, nothing, nothing)
    views = BufferViews.of(data)
    positions = record_positions(data, views, starts, stops, counts)
    ends = _ends(positions, starts, stops, counts)
    sizes, at = varints(views, positions)
    _require((sizes >= SMALLEST_RECORD_BYTES - 1) & (at + sizes == ends))
    # The attributes byte of a record has no bits in use.
    timestamp_deltas, at = varlongs(views, at + 1)
    offset_deltas, at = varints(views, at)
    keys, at = _field(views, at)
    values, at = _field(views, at)
    # Positions only grow: each field that began outside of its record is found here.
    _require(at < ends)
    no_headers = views.octets[at] == 0
    _require(no_headers <= (at + 1 == ends))
    batches = np.repeat(np.arange(len(counts)), counts)
    return Fields(batches, timestamp_deltas, offset_deltas, keys, values, at, ends)


def _ends(positions: Int64s, starts: Int64s, stops: Int64s, counts: Int64s) -> Int64s:
    """Where each record has to end: where the next begins, or its batch ends."""
    if (starts[counts == 0] != stops[counts == 0]).any():
        raise Unusual
    ends = np.empty_like(positions)
    ends[:-1] = positions[1:]
    filled = counts > 0
    ends[counts.cumsum()[filled] - 1] = stops[filled]
    return ends


def _field(views: BufferViews, at: Int64s) -> tuple[Places, Int64s]:
    """The places of a key or value, and the positions after it."""
    sizes, at = varints(views, at)
    if sizes.min() < 0:
        return Places(at, sizes), at + np.maximum(sizes, 0)
    return Places(at, sizes), at + sizes


def _require(flags: Flags) -> None:
    if not flags.all():
        raise Unusual
