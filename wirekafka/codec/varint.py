"""Encodes and decodes varints, plain and zigzag: 7 bits a byte, least significant group first."""

from __future__ import annotations

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10

_SMALL = tuple(bytes((value,)) for value in range(128))


def encode_varint(value: int) -> bytes:
    """The zigzag form of a signed 64-bit value; one to ten bytes."""
    unsigned = value << 1 if value >= 0 else (~value << 1) | 1
    if unsigned < 128:
        return _SMALL[unsigned]
    if unsigned < 1 << 14:
        return bytes((unsigned & 0x7F | 0x80, unsigned >> 7))
    return encode_uvarint(unsigned)


def encode_uvarint(value: int) -> bytes:
    """The plain base-128 form of a value that is not negative."""
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode a zigzag varint of at most 32 bits: (value, position after it).

    Raises ValueError when it takes more than five bytes, IndexError when the data ends inside it.
    """
    low = data[position]
    if low < 128:
        return (low >> 1) ^ -(low & 1), position + 1
    high = data[position + 1]
    if high < 128:
        return ((low & 0x7F) >> 1 | high << 6) ^ -(low & 1), position + 2
    unsigned, position = decode_uvarint(data, position, MAX_VARINT_BYTES)
    return (unsigned >> 1) ^ -(unsigned & 1), position


def decode_varlong(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode a zigzag varint of at most 64 bits in ten bytes; otherwise as `decode_varint`."""
    low = data[position]
    if low < 128:
        return (low >> 1) ^ -(low & 1), position + 1
    unsigned, position = decode_uvarint(data, position, MAX_VARLONG_BYTES)
    return (unsigned >> 1) ^ -(unsigned & 1), position


def decode_uvarint(
    data: bytes | memoryview, position: int, most_bytes: int = MAX_VARINT_BYTES
) -> tuple[int, int]:
    """Decode an unsigned varint: (value, position after it); errors as `decode_varint`."""
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    value = byte & 0x7F
    for index in range(1, most_bytes):
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 128:
            return value & (1 << (64 if most_bytes > 5 else 32)) - 1, position + index + 1
    raise ValueError(f"varint is longer than {most_bytes} bytes")
