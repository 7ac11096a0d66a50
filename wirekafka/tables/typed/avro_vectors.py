"""Values of one Avro type in many payloads, which become an Arrow array at the end.

Each vector knows its values' lanes: which payload each value comes from. What a refused payload
has in a vector means nothing, but is never out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirekafka.tables.columns import bitmap
from wirekafka.tables.scan import Flags, Int64s

PADDING_BYTES = 64
"""Zeros before and after the payloads: whoever reads a few bytes too many finds them."""
_VIEW, _SIZE_BYTES = np.dtype("V16"), 4
_DECIMAL_BYTES = 16
_MOST_DIGITS = 38
_UUID_BYTES, _UUID_CHARACTERS = 16, 36
_HYPHENS = np.array((8, 13, 18, 23))
_DIGITS = np.delete(np.arange(_UUID_CHARACTERS), _HYPHENS)
_NO_DIGIT = 0xFF


def _hexadecimal() -> NDArray[np.uint8]:
    values = np.full(256, _NO_DIGIT, np.uint8)
    for digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
        values[np.frombuffer(digits, np.uint8)] = np.arange(16)
    return values


_HEXADECIMAL = _hexadecimal()


@dataclass(slots=True, eq=False)
class LaneChunk:
    """Joined payloads, where each ends, and which have been refused.

    `few` is how many more steps may be taken for the sake of a few lanes.
    """

    data: bytes
    ends: Int64s
    refused: Flags
    few: int
    octets: NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self.octets = np.frombuffer(self.data, np.uint8)

    def items(self, kind: np.dtype[Any], at: Int64s) -> NDArray[Any]:
        """The item of a type at each position; the last one behind the end of the data."""
        count = len(self.data) - kind.itemsize + 1
        every = np.ndarray((count,), kind, self.data, 0, (1,))
        if len(at) and at.max() >= count:
            at = np.minimum(at, count - 1)
        # Not `take`, which would make an array of all items first.
        found: NDArray[Any] = every[at]
        return found

    def rows(self, size_bytes: int, at: Int64s) -> NDArray[np.uint8]:
        """The bytes from some positions on, a row for each."""
        found = self.items(np.dtype(f"V{size_bytes}"), at)
        return found.view(np.uint8).reshape(-1, size_bytes)

    def refuse(self, lanes: Int64s, wrong: Flags) -> None:
        """Leave the payloads with wrong values to the decoder of single payloads."""
        self.refused[lanes[wrong]] = True


class Vector(Protocol):
    """The values of a type."""

    def array(self, chunk: LaneChunk) -> pa.Array:
        """The values as an array. Payloads whose values are wrong are refused."""


@dataclass(slots=True, eq=False)
class NumberVector:
    """Numbers in their column's type of NumPy; `valid` is None if none of them is null."""

    arrow: pa.DataType
    values: NDArray[Any]
    valid: Flags | None = None

    def array(self, chunk: LaneChunk) -> pa.Array:
        validity = None if self.valid is None else bitmap(self.valid)
        is_bits = self.values.dtype == np.bool_
        buffer = bitmap(self.values) if is_bits else pa.py_buffer(self.values)
        return pa.Array.from_buffers(self.arrow, len(self.values), [validity, buffer])


@dataclass(slots=True, eq=False)
class SymbolVector:
    """Indexes of an enum's symbols."""

    symbols: pa.StringArray
    indexes: Int64s

    def array(self, chunk: LaneChunk) -> pa.Array:
        return self.symbols.take(pa.array(self.indexes))


@dataclass(slots=True, eq=False)
class TextVector:
    """Strings or bytes where they lie; a size below zero stands for null."""

    arrow: pa.DataType
    lanes: Int64s
    positions: Int64s
    sizes: Int64s

    def array(self, chunk: LaneChunk) -> pa.Array:
        valid = self.sizes >= 0
        sizes = self.sizes if valid.all() else np.maximum(self.sizes, 0)
        if chunk.refused.any():
            sizes = np.where(chunk.refused[self.lanes], 0, sizes)
        octets = self._octets(chunk, sizes, valid)
        if self.arrow == octets.type:
            return octets
        try:
            return octets.cast(self.arrow)
        except pa.ArrowInvalid:
            wrong = np.array([not _is_text(each) for each in octets.to_pylist()])
            chunk.refuse(self.lanes, wrong)
            return self._octets(chunk, np.where(wrong, 0, sizes), valid).cast(self.arrow)

    def _octets(self, chunk: LaneChunk, sizes: Int64s, valid: Flags) -> pa.Array:
        views = _views(chunk, self.positions, sizes)
        validity = None if valid.all() else bitmap(valid)
        buffers = [validity, pa.py_buffer(views), pa.py_buffer(chunk.data)]
        array = pa.Array.from_buffers(pa.binary_view(), len(views), buffers)
        return array.cast(pa.binary())


def _views(chunk: LaneChunk, positions: Int64s, sizes: Int64s) -> NDArray[np.int32]:
    """Arrow's views of texts: the size, and up to 12 bytes of text, or four and where it lies."""
    # The bytes before the text make room for the size.
    octets = chunk.items(_VIEW, positions - _SIZE_BYTES)
    views = octets.view(np.int32).reshape(-1, _VIEW.itemsize // _SIZE_BYTES)
    views[:, 0] = sizes
    (large,) = (sizes > _VIEW.itemsize - _SIZE_BYTES).nonzero()
    if len(large):
        views[large, 2] = 0
        views[large, 3] = positions[large]
    return views


def _is_text(octets: bytes | None) -> bool:
    try:
        return octets is None or octets.decode() is not None
    except UnicodeDecodeError:
        return False


@dataclass(slots=True, eq=False)
class FixedVector:
    """Values of a fixed size, as rows of their bytes."""

    arrow: pa.DataType
    octets: NDArray[np.uint8]

    def array(self, chunk: LaneChunk) -> pa.Array:
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.octets))]
        is_extension = isinstance(self.arrow, pa.BaseExtensionType)
        stored = self.arrow.storage_type if is_extension else self.arrow
        array = pa.Array.from_buffers(stored, len(self.octets), buffers)
        return self.arrow.wrap_array(array) if is_extension else array


@dataclass(slots=True, eq=False)
class OptionalVector:
    """Values of some of `count` places, in order; the other places are null."""

    values: Vector
    where: Int64s
    count: int

    def array(self, chunk: LaneChunk) -> pa.Array:
        places = np.zeros(self.count, np.int64)
        places[self.where] = np.arange(len(self.where))
        is_null = np.ones(self.count, np.bool_)
        is_null[self.where] = False
        return self.values.array(chunk).take(pa.array(places, mask=is_null))


@dataclass(slots=True, eq=False)
class NullVector:
    """Nulls: a branch of a union that no payload has."""

    arrow: pa.DataType
    count: int

    def array(self, chunk: LaneChunk) -> pa.Array:
        return pa.nulls(self.count, self.arrow)


@dataclass(slots=True, eq=False)
class StructVector:
    """Values of each field of a struct; `valid` is None if none of the structs is null."""

    arrow: pa.StructType
    fields: Sequence[Vector]
    count: int
    valid: Flags | None = None

    def array(self, chunk: LaneChunk) -> pa.Array:
        validity = None if self.valid is None else bitmap(self.valid)
        children = [each.array(chunk) for each in self.fields]
        return pa.Array.from_buffers(self.arrow, self.count, [validity], children=children)


@dataclass(slots=True, eq=False)
class ListVector:
    """The items of all lists in order, and how many each list has."""

    arrow: pa.ListType
    counts: Int64s
    items: Vector

    def array(self, chunk: LaneChunk) -> pa.Array:
        buffers = [None, pa.py_buffer(offsets_of(self.counts))]
        children = [self.items.array(chunk)]
        return pa.Array.from_buffers(self.arrow, len(self.counts), buffers, children=children)


@dataclass(slots=True, eq=False)
class MapVector:
    """The keys and values of all maps in order; `lanes` are the lanes of the keys."""

    arrow: pa.MapType
    counts: Int64s
    lanes: Int64s
    keys: TextVector
    values: Vector

    def array(self, chunk: LaneChunk) -> pa.Array:
        keys = self.keys.array(chunk)
        self._refuse_twice_the_same(chunk, keys)
        entries = pa.StructArray.from_arrays(
            [keys, self.values.array(chunk)], fields=[self.arrow.key_field, self.arrow.item_field]
        )
        buffers = [None, pa.py_buffer(offsets_of(self.counts))]
        return pa.Array.from_buffers(self.arrow, len(self.counts), buffers, children=[entries])

    def _refuse_twice_the_same(self, chunk: LaneChunk, keys: pa.StringArray) -> None:
        """Of values with the same key, the last counts: single payloads are decoded so."""
        codes = keys.dictionary_encode().indices.to_numpy()
        maps = np.repeat(np.arange(len(self.counts)), self.counts)
        order = np.lexsort((codes, maps))
        maps, codes = maps[order], codes[order]
        (twice,) = ((maps[1:] == maps[:-1]) & (codes[1:] == codes[:-1])).nonzero()
        chunk.refused[self.lanes[order[twice]]] = True


def offsets_of(counts: Int64s) -> NDArray[np.int32]:
    """Where the items of each list begin, and where the last list's items end."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    counts.cumsum(out=offsets[1:])
    return offsets


def uuids(chunk: LaneChunk, arrow: pa.DataType, texts: TextVector) -> FixedVector:
    """The UUIDs in texts of 36 characters."""
    found = chunk.rows(_UUID_CHARACTERS, texts.positions)
    digits = _HEXADECIMAL[found[:, _DIGITS]]
    wrong = (digits == _NO_DIGIT).any(1) | (found[:, _HYPHENS] != ord("-")).any(1)
    chunk.refuse(texts.lanes, wrong | (texts.sizes != _UUID_CHARACTERS))
    return FixedVector(arrow, (digits[:, ::2] << 4 | digits[:, 1::2]).astype(np.uint8))


def decimals(chunk: LaneChunk, arrow: pa.Decimal128Type, texts: TextVector) -> NumberVector:
    """The decimals whose bytes lie where texts do: 16 bytes at most."""
    ends, sizes = texts.positions + texts.sizes, texts.sizes
    found = chunk.rows(_DECIMAL_BYTES, ends - _DECIMAL_BYTES)[:, ::-1]
    is_negative = (chunk.octets[texts.positions] >= 0x80) & (sizes > 0)
    missing = np.arange(_DECIMAL_BYTES) >= sizes[:, None]
    signs = np.where(is_negative, np.uint8(0xFF), np.uint8(0))
    octets = np.ascontiguousarray(np.where(missing, signs[:, None], found))
    chunk.refuse(texts.lanes, sizes > _DECIMAL_BYTES)
    chunk.refuse(texts.lanes, _has_more_digits(octets, arrow))
    return NumberVector(arrow, octets.reshape(-1).view("V16"))


def _has_more_digits(octets: NDArray[np.uint8], arrow: pa.Decimal128Type) -> Flags:
    """Whether each decimal has more digits than its type."""
    whole = pa.decimal128(_MOST_DIGITS, 0)
    values = pa.Array.from_buffers(whole, len(octets), [None, pa.py_buffer(octets)])
    largest = pa.scalar(Decimal("9" * arrow.precision), whole)
    smallest = pa.scalar(Decimal("-" + "9" * arrow.precision), whole)
    wrong = pc.or_(pc.greater(values, largest), pc.less(values, smallest))
    flags: Flags = wrong.to_numpy(zero_copy_only=False)
    return flags
