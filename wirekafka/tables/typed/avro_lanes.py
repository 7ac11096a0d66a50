"""Many Avro payloads, decoded in lock step: a field of all of them, then the next field.

A lane is a payload. What NumPy does for thousands of them takes a few nanoseconds for each, where
a loop takes some tenths of a microsecond for each field. A lane that is malformed, or that few
others can keep pace with, as one with a long list, is refused: the decoder of single payloads
has it then, and names the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, assert_never

import numpy as np
import pyarrow as pa

from wirekafka.tables.scan import Flags, Int64s
from wirekafka.tables.typed import avro_types
from wirekafka.tables.typed.avro_types import Column, RecordColumn
from wirekafka.tables.typed.avro_vectors import (
    PADDING_BYTES,
    FixedVector,
    LaneChunk,
    ListVector,
    MapVector,
    NullVector,
    NumberVector,
    OptionalVector,
    StructVector,
    SymbolVector,
    TextVector,
    Vector,
    decimals,
    uuids,
)

FEWEST_LANES = 32
"""The fewest payloads that are worth a step for all of them."""
_FEW_STEPS = 256
"""The steps in a chunk that may be taken for fewer lanes."""
_PADDING = bytes(PADDING_BYTES)

_WORD, _WORD_BYTES = np.dtype("<u8"), 8
_EACH_BYTE = np.uint64(0x0101010101010101)
_LAST_BYTES = np.uint64(0x8080808080808080)
_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_LONGEST_BYTES = 10
_SMALL = (np.arange(128) >> 1) ^ -(np.arange(128) & 1)
"""The value of each varint of one byte."""

Read = Callable[[LaneChunk, Int64s, Int64s], tuple[Vector, Int64s]]
Skip = Callable[[LaneChunk, Int64s, Int64s], Int64s]


class LaneReader(NamedTuple):
    """How the values of a type are read in lanes, from positions in them on.

    `read` returns the values and the positions after them, `skip` the positions alone.
    `size_bytes` is the size of each value, or 0 if they differ.
    """

    read: Read
    skip: Skip
    size_bytes: int = 0


def decode_lanes(record: RecordColumn) -> Callable[[Sequence[bytes]], tuple[pa.Array, Flags]]:
    """A function that decodes payloads to rows, of which some may be refused.

    What the row of a refused payload has means nothing. Fast twin of
    `wirekafka.tables.typed.avro_payload.decode_payload`.
    """
    reader = _reader(record)

    def decode(payloads: Sequence[bytes]) -> tuple[pa.Array, Flags]:
        count = len(payloads)
        ends = np.fromiter(map(len, payloads), np.int64, count).cumsum() + PADDING_BYTES
        data = b"".join((_PADDING, *payloads, _PADDING))
        chunk = LaneChunk(data, ends, np.zeros(count, np.bool_), _FEW_STEPS)
        starts = np.empty(count, np.int64)
        starts[:1] = PADDING_BYTES
        starts[1:] = ends[:-1]
        lanes = np.arange(count)
        rows, after = reader.read(chunk, lanes, starts)
        chunk.refuse(lanes, after != ends)
        return rows.array(chunk), chunk.refused

    return decode


def _reader(column: Column) -> LaneReader:
    match column:
        case avro_types.NothingColumn():
            return LaneReader(lambda chunk, lanes, at: (_NOTHING, at), lambda chunk, lanes, at: at)
        case avro_types.BooleanColumn():
            return _sized(1, lambda chunk, lanes, at: _booleans(chunk, column.arrow, lanes, at))
        case avro_types.IntegerColumn():
            return _varying(lambda chunk, lanes, at: _integers(chunk, column, lanes, at))
        case avro_types.FloatColumn():
            return _float_reader(column)
        case avro_types.OctetsColumn():
            return _varying(lambda chunk, lanes, at: _texts(chunk, column.arrow, lanes, at))
        case avro_types.UuidTextColumn():
            return _uuid_reader(column)
        case avro_types.FixedColumn():
            return _fixed_reader(column)
        case avro_types.DecimalColumn():
            return _decimal_reader(column)
        case avro_types.EnumColumn():
            return _enum_reader(column)
        case avro_types.OptionalColumn():
            return _optional_reader(column)
        case avro_types.UnionColumn():
            return _union_reader(column)
        case RecordColumn():
            return _record_reader(column)
        case avro_types.ListColumn():
            return _list_reader(column)
        case avro_types.MapColumn():
            return _map_reader(column)
    assert_never(column)


_NOTHING = StructVector(pa.struct([]), (), 0)


def _varying(read: Read) -> LaneReader:
    return LaneReader(read, lambda chunk, lanes, at: read(chunk, lanes, at)[1])


def _sized(size_bytes: int, vector: Callable[[LaneChunk, Int64s, Int64s], Vector]) -> LaneReader:
    """Values of one size: they may end behind their lane, which is found at its end."""

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        return vector(chunk, lanes, at), at + size_bytes

    return LaneReader(read, lambda chunk, lanes, at: at + size_bytes, size_bytes)


def longs(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
    """The varint of at most 64 bits at each position, and the positions after them."""
    first = chunk.octets.take(at, mode="clip")
    if not len(at) or first.max() < 0x80:
        return _SMALL.take(first), at + 1
    has_second = first >= 0x80
    second = chunk.octets.take(at + 1, mode="clip")
    if (second * has_second).max() >= 0x80:
        return _long(chunk, lanes, at)
    raw = (first & 0x7F) + (second * has_second).astype(np.int64) * 0x80
    return (raw >> 1) ^ -(raw & 1), at + 1 + has_second


def _long(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
    """The varints, from words of eight bytes: all bytes of one but its last have the high bit."""
    found = chunk.items(_WORD, at)
    lasts = (found & _LAST_BYTES) ^ _LAST_BYTES
    below = (lasts & (np.uint64(0) - lasts)) - np.uint64(1)
    raw = found & below & _BITS
    # The gaps between the bytes' bits are closed: gaps of one, of two and of four bits.
    raw = raw & np.uint64(0x007F007F007F007F) | raw >> np.uint64(1) & np.uint64(0x3F803F803F803F80)
    raw = raw & np.uint64(0x00003FFF00003FFF) | raw >> np.uint64(2) & np.uint64(0x0FFFC0000FFFC000)
    raw = raw & np.uint64(0x000000000FFFFFFF) | raw >> np.uint64(4) & np.uint64(0x00FFFFFFF0000000)
    ends: Int64s = at + ((below & _EACH_BYTE) * _EACH_BYTE >> np.uint64(56)).view(np.int64)
    if not lasts.all():
        (where,) = (lasts == 0).nonzero()
        _lengthen(chunk, lanes, at, where, raw, ends)
    values = (raw >> np.uint64(1)) ^ (np.uint64(0) - (raw & np.uint64(1)))
    return values.view(np.int64), ends


def _lengthen(
    chunk: LaneChunk, lanes: Int64s, at: Int64s, where: Int64s, raw: Any, ends: Int64s
) -> None:
    """Add the ninth and the tenth byte to the varints that have them."""
    ninth = chunk.octets.take(at[where] + _WORD_BYTES, mode="clip").astype(np.uint64)
    tenth = chunk.octets.take(at[where] + _WORD_BYTES + 1, mode="clip").astype(np.uint64)
    has_tenth = ninth >= 0x80
    raw[where] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
    raw[where] |= np.where(has_tenth, tenth & np.uint64(1), np.uint64(0)) << np.uint64(63)
    ends[where] = at[where] + _LONGEST_BYTES - 1 + has_tenth
    chunk.refuse(lanes[where], has_tenth & (tenth > 1))


def _booleans(chunk: LaneChunk, arrow: pa.DataType, lanes: Int64s, at: Int64s) -> Vector:
    found = chunk.octets.take(at, mode="clip")
    chunk.refuse(lanes, found > 1)
    return NumberVector(arrow, found == 1)


def _integers(
    chunk: LaneChunk, column: avro_types.IntegerColumn, lanes: Int64s, at: Int64s
) -> tuple[Vector, Int64s]:
    values, at = longs(chunk, lanes, at)
    if len(values) and (values.min() < column.least or values.max() > column.largest):
        wrong = (values < column.least) | (values > column.largest)
        chunk.refuse(lanes, wrong)
        values = np.where(wrong, 0, values)
    if column.factor != 1:
        values = values * column.factor
    if column.arrow.bit_width == 32:
        return NumberVector(column.arrow, values.astype(np.int32)), at
    return NumberVector(column.arrow, values), at


def _float_reader(column: avro_types.FloatColumn) -> LaneReader:
    kind, arrow = np.dtype(f"<f{column.size_bytes}"), column.arrow

    def vector(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> Vector:
        return NumberVector(arrow, chunk.items(kind, at))

    return _sized(column.size_bytes, vector)


def _texts(
    chunk: LaneChunk, arrow: pa.DataType, lanes: Int64s, at: Int64s
) -> tuple[TextVector, Int64s]:
    sizes, at = longs(chunk, lanes, at)
    wrong = (sizes > chunk.ends[lanes] - at) | (sizes < 0)
    if wrong.any():
        chunk.refuse(lanes, wrong)
        sizes = np.where(wrong, 0, sizes)
        at = np.minimum(at, len(chunk.data) - PADDING_BYTES)
    return TextVector(arrow, lanes, at, sizes), at + sizes


def _uuid_reader(column: avro_types.UuidTextColumn) -> LaneReader:
    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        texts, at = _texts(chunk, column.arrow, lanes, at)
        return uuids(chunk, column.arrow, texts), at

    return LaneReader(read, _skip_text)


def _skip_text(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> Int64s:
    return _texts(chunk, pa.binary(), lanes, at)[1]


def _fixed_reader(column: avro_types.FixedColumn) -> LaneReader:
    size, arrow = column.size_bytes, column.arrow

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        wrong = at > chunk.ends[lanes] - size
        if wrong.any():
            chunk.refuse(lanes, wrong)
            at = np.where(wrong, 0, at)
        if arrow == pa.binary():
            return TextVector(arrow, lanes, at, np.where(wrong, 0, size)), at + size
        if size > len(chunk.data):
            return FixedVector(arrow, np.zeros((len(at), size), np.uint8)), at
        return FixedVector(arrow, chunk.rows(size, at)), at + size

    return LaneReader(read, lambda chunk, lanes, at: read(chunk, lanes, at)[1], size)


def _decimal_reader(column: avro_types.DecimalColumn) -> LaneReader:
    size, arrow = column.size_bytes, column.arrow

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        if size is None:
            texts, at = _texts(chunk, arrow, lanes, at)
            return decimals(chunk, arrow, texts), at
        at = np.minimum(at, len(chunk.data) - PADDING_BYTES)
        wrong = at > chunk.ends[lanes] - size
        chunk.refuse(lanes, wrong)
        sizes = np.where(wrong, 0, size)
        return decimals(chunk, arrow, TextVector(arrow, lanes, at, sizes)), at + sizes

    return LaneReader(read, lambda chunk, lanes, at: read(chunk, lanes, at)[1], 0)


def _enum_reader(column: avro_types.EnumColumn) -> LaneReader:
    symbols = pa.array(column.symbols, pa.string())

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        indexes, at = longs(chunk, lanes, at)
        wrong = (indexes < 0) | (indexes >= len(symbols))
        if wrong.any():
            chunk.refuse(lanes, wrong)
            indexes = np.where(wrong, 0, indexes)
        return SymbolVector(symbols, indexes), at

    return _varying(read)


def _optional_reader(column: avro_types.OptionalColumn) -> LaneReader:
    value, null_index = _reader(column.value), column.null_index

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        where, at = _branches(chunk, lanes, at)
        if len(where) == len(at):
            return value.read(chunk, lanes, at)
        if not len(where):
            return _nulls(column.arrow, len(at)), at
        values, after = value.read(chunk, lanes[where], at[where])
        at[where] = after
        return _spread(values, where, len(at)), at

    def skip(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> Int64s:
        where, at = _branches(chunk, lanes, at)
        if len(where):
            at[where] = value.skip(chunk, lanes[where], at[where])
        return at

    def _branches(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
        """Which values are not null, and the positions after the branches' indexes."""
        indexes, at = longs(chunk, lanes, at)
        if len(indexes) and (indexes.min() < 0 or indexes.max() > 1):
            chunk.refuse(lanes, (indexes < 0) | (indexes > 1))
        return (indexes == 1 - null_index).nonzero()[0], at

    return LaneReader(read, skip)


def _nulls(arrow: pa.DataType | None, count: int) -> Vector:
    return _NOTHING if arrow is None else NullVector(arrow, count)


def _spread(values: Vector, where: Int64s, count: int) -> Vector:
    """Values at some of `count` places: numbers and texts are moved before they are an array."""
    if isinstance(values, NumberVector):
        numbers, valid = np.zeros(count, values.values.dtype), np.zeros(count, np.bool_)
        numbers[where] = values.values
        valid[where] = True
        return NumberVector(values.arrow, numbers, valid)
    if isinstance(values, TextVector):
        positions, sizes = np.zeros(count, np.int64), np.full(count, -1)
        lanes = np.zeros(count, np.int64)
        positions[where], sizes[where], lanes[where] = values.positions, values.sizes, values.lanes
        return TextVector(values.arrow, lanes, positions, sizes)
    return OptionalVector(values, where, count)


def _union_reader(column: avro_types.UnionColumn) -> LaneReader:
    readers = [_reader(each.column) for each in column.branches]
    is_column = np.array([each.column.arrow is not None for each in column.branches])

    def branches(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
        indexes, at = longs(chunk, lanes, at)
        wrong = (indexes < 0) | (indexes >= len(readers))
        if wrong.any():
            chunk.refuse(lanes, wrong)
            indexes = np.where(wrong, 0, indexes)
        return indexes, at

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        indexes, at = branches(chunk, lanes, at)
        fields = []
        for index, reader in enumerate(readers):
            (where,) = (indexes == index).nonzero()
            values = _nulls(column.branches[index].column.arrow, len(at))
            if len(where):
                some, at[where] = reader.read(chunk, lanes[where], at[where])
                values = _spread(some, where, len(at))
            if is_column[index]:
                fields.append(values)
        if not fields:
            return _NOTHING, at
        valid = None if is_column.all() else is_column[indexes]
        return StructVector(column.arrow, fields, len(at), valid), at

    def skip(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> Int64s:
        indexes, at = branches(chunk, lanes, at)
        for index, reader in enumerate(readers):
            (where,) = (indexes == index).nonzero()
            if len(where):
                at[where] = reader.skip(chunk, lanes[where], at[where])
        return at

    return LaneReader(read, skip)


def _record_reader(column: RecordColumn) -> LaneReader:
    readers = [_reader(each.column) for each in column.fields]
    is_column = [each.column.arrow is not None for each in column.fields]
    arrow = column.arrow

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        fields = []
        for reader, is_kept in zip(readers, is_column, strict=True):
            values, at = reader.read(chunk, lanes, at)
            if is_kept:
                fields.append(values)
        return (_NOTHING if arrow is None else StructVector(arrow, fields, len(at))), at

    def skip(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> Int64s:
        for reader in readers:
            at = reader.skip(chunk, lanes, at)
        return at

    sizes = [each.size_bytes for each in readers]
    return LaneReader(read, skip, sum(sizes) if all(sizes) else 0)


class _Items(NamedTuple):
    """The items of lists: which list each is of, where it begins, and where the lists end."""

    owners: Int64s
    positions: Int64s
    after: Int64s

    def counts(self) -> Int64s:
        return np.bincount(self.owners, minlength=len(self.after))


def _list_reader(column: avro_types.ListColumn) -> LaneReader:
    item, arrow = _reader(column.item), column.arrow

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        items = _items(chunk, lanes, at, item)
        values, _ = item.read(chunk, lanes[items.owners], items.positions)
        return ListVector(arrow, items.counts(), values), items.after

    return LaneReader(read, lambda chunk, lanes, at: _items(chunk, lanes, at, item).after)


def _map_reader(column: avro_types.MapColumn) -> LaneReader:
    value, arrow = _reader(column.value), column.arrow

    def skip(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> Int64s:
        return value.skip(chunk, lanes, _skip_text(chunk, lanes, at))

    def read(chunk: LaneChunk, lanes: Int64s, at: Int64s) -> tuple[Vector, Int64s]:
        entries = _items(chunk, lanes, at, entry)
        owners = lanes[entries.owners]
        keys, positions = _texts(chunk, pa.string(), owners, entries.positions)
        values, _ = value.read(chunk, owners, positions)
        return MapVector(arrow, entries.counts(), owners, keys, values), entries.after

    entry = LaneReader(read, skip)
    return LaneReader(read, lambda chunk, lanes, at: _items(chunk, lanes, at, entry).after)


def _items(chunk: LaneChunk, lanes: Int64s, at: Int64s, item: LaneReader) -> _Items:
    """Find the items in all blocks of lists, in lock step: the first of each, the second, …"""
    owners, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    at = at.copy()
    going = np.arange(len(at))
    while len(going):
        counts, now = _block(chunk, lanes[going], at[going], item.size_bytes or 1)
        at[going] = now
        has_more = counts > 0
        going, counts, now = going[has_more], counts[has_more], now[has_more]
        if item.size_bytes:
            size = item.size_bytes
            owners.append(np.repeat(going, counts))
            firsts = np.repeat(counts.cumsum() - counts, counts)
            indexes = np.arange(len(firsts)) - firsts
            positions.append(np.repeat(now, counts) + indexes * size)
            at[going] = now + counts * size
        else:
            _step(chunk, lanes, at, item, going, counts, owners, positions)
        going = _afford(chunk, lanes, going)
    owner, position = np.concatenate(owners), np.concatenate(positions)
    if (owner[1:] < owner[:-1]).any():
        order = np.argsort(owner, kind="stable")
        owner, position = owner[order], position[order]
    return _Items(owner, position, at)


def _block(chunk: LaneChunk, lanes: Int64s, at: Int64s, least_bytes: int) -> tuple[Int64s, Int64s]:
    """The counts of the next blocks' items, and the positions after the counts."""
    counts, at = longs(chunk, lanes, at)
    (negative,) = (counts < 0).nonzero()
    if len(negative):
        # The size of the block's bytes follows.
        counts[negative] = -counts[negative]
        _, at[negative] = longs(chunk, lanes[negative], at[negative])
    wrong = (counts > (chunk.ends[lanes] - at) // least_bytes) | (counts < 0)
    if wrong.any():
        chunk.refuse(lanes, wrong)
        counts = np.where(wrong, 0, counts)
    return counts, at


def _step(
    chunk: LaneChunk,
    lanes: Int64s,
    at: Int64s,
    item: LaneReader,
    going: Int64s,
    counts: Int64s,
    owners: list[Int64s],
    positions: list[Int64s],
) -> None:
    """Find the items of a block of each list that is going on."""
    order = np.argsort(-counts, kind="stable")
    going, ascending = going[order], counts[order[::-1]]
    done = 0
    while count := len(ascending) - int(np.searchsorted(ascending, done, "right")):
        going = _afford(chunk, lanes, going[:count])
        if not len(going):
            return
        owners.append(going)
        positions.append(at[going])
        at[going] = item.skip(chunk, lanes[going], at[going])
        done += 1


def _afford(chunk: LaneChunk, lanes: Int64s, going: Int64s) -> Int64s:
    """The lists that a further step is worth: few of them have few steps."""
    if 0 < len(going) < FEWEST_LANES:
        chunk.few -= 1
        if chunk.few < 0:
            chunk.refused[lanes[going]] = True
            return going[:0]
    return going
