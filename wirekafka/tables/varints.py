"""Decodes zigzag varints at many positions of a buffer at once, and encodes many at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirekafka.codec.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES
from wirekafka.tables.scan import Int64s

_LENGTH_BITS = 2
_LENGTH_MASK = 3
_IS_LONGER = 3


class Unusual(Exception):
    """Records that need the decoder of single records: they are malformed, or oddly encoded."""


def _two_byte_values() -> NDArray[np.int32]:
    """What the varint in each pair of bytes is: its value, shifted, and its length in bytes.

    The length 3 stands for a longer varint, whose value needs more bytes.
    """
    pair = np.arange(1 << 16, dtype=np.int32)
    low, high = pair & 0xFF, pair >> 8
    is_one, is_two = low < 0x80, high < 0x80
    raw = np.where(is_one, low, low & 0x7F | high << 7)
    value = (raw >> 1) ^ -(raw & 1)
    length = np.where(is_one, 1, 2)
    found = np.where(is_one | is_two, value << _LENGTH_BITS | length, _IS_LONGER)
    return found.astype(np.int32)


_VALUES = _two_byte_values()


class BufferViews(NamedTuple):
    """A buffer of at least two bytes, and the pairs of bytes from each of its positions on."""

    octets: NDArray[np.uint8]
    pairs: NDArray[np.uint16]

    @classmethod
    def of(cls, data: bytes | memoryview) -> BufferViews:
        """The views of a buffer, uncopied."""
        pairs = np.ndarray((len(data) - 1,), "<u2", data, 0, (1,))
        return cls(np.frombuffer(data, np.uint8), pairs)


class Varints(NamedTuple):
    """Decoded values, and the positions after them."""

    values: Int64s
    ends: Int64s


def varints(views: BufferViews, positions: Int64s) -> Varints:
    """Decode a varint of at most 32 bits at each position.

    What a varint behind the end of the buffer decodes to is undefined, but its end is behind the
    end of the buffer, too. Raises Unusual for varints of more than five bytes.
    """
    return _varints(views, positions, MAX_VARINT_BYTES)


def varlongs(views: BufferViews, positions: Int64s) -> Varints:
    """Decode a varint of at most 64 bits, in ten bytes; otherwise as `varints`."""
    return _varints(views, positions, MAX_VARLONG_BYTES)


def _varints(views: BufferViews, positions: Int64s, most_bytes: int) -> Varints:
    found = _VALUES.take(_pairs_at(views, positions))
    lengths = found & _LENGTH_MASK
    values: Int64s = (found >> _LENGTH_BITS).astype(np.int64)
    ends: Int64s = positions + lengths
    is_long = lengths == _IS_LONGER
    if is_long.any():
        (where,) = is_long.nonzero()
        values[where], ends[where] = _long(views, positions[where], most_bytes)
    return Varints(values, ends)


def _pairs_at(views: BufferViews, positions: Int64s) -> NDArray[np.uint16]:
    last = len(views.pairs) - 1
    if not len(positions) or positions.max() <= last:
        return views.pairs[positions]
    pairs = views.pairs[np.minimum(positions, last)]
    # The last byte of the buffer may be a varint, but begins no longer one.
    pairs[positions > last] = 0x8000 | int(views.octets[-1])
    return pairs


def _long(views: BufferViews, positions: Int64s, most_bytes: int) -> Varints:
    """Decode byte by byte, with fewer varints in each turn."""
    octets, last = views.octets, len(views.octets) - 1
    raw = np.zeros(len(positions), np.uint64)
    ends = positions.copy()
    going = np.arange(len(positions))
    for index in range(most_bytes):
        byte = octets[np.minimum(positions[going] + index, last)].astype(np.uint64)
        raw[going] |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
        ends[going] += 1
        going = going[byte >= 0x80]
        if not len(going):
            break
    else:
        raise Unusual
    if most_bytes == MAX_VARINT_BYTES:
        raw &= np.uint64(0xFFFFFFFF)
    values = (raw >> np.uint64(1)) ^ (np.uint64(0) - (raw & np.uint64(1)))
    return Varints(values.view(np.int64), ends)


class EncodedVarints(NamedTuple):
    """Many encoded varints: the bytes of each in a row of `octets`, of which `sizes` are used."""

    octets: NDArray[np.uint8]
    sizes: NDArray[np.uint8]


def encoded(values: Int64s) -> EncodedVarints:
    """Encode each value as a zigzag varint of up to 64 bits."""
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = varint_bytes_of(int(raw.max())) if len(raw) else 1
    octets = np.empty((len(raw), width), np.uint8)
    sizes = np.ones(len(raw), np.uint8)
    for index in range(width - 1):
        rest = raw >> np.uint64(7)
        has_more = rest != 0
        octets[:, index] = raw.astype(np.uint8) & 0x7F | has_more.view(np.uint8) << 7
        sizes += has_more
        raw = rest
    octets[:, width - 1] = raw
    return EncodedVarints(octets, sizes)


def varint_bytes_of(raw: int) -> int:
    """How many bytes a varint takes, of a value that is zigzag-encoded already."""
    return max(1, (raw.bit_length() + 6) // 7)
