"""The rare parts of compact encoding (KIP-482): values of 127 bytes and more, unknown tags."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.varint import decode_uvarint, encode_uvarint

LONGEST_STRING_BYTES = 32767

# Whatever a frame's size, it does not hold the event loop up with more than these. Kafka's largest
# clusters have some 200,000 partitions; no struct of Kafka's has more than four tagged fields.
MOST_ELEMENTS = 1 << 20
MOST_TAGS = 127


def long_bytes(data: Any, position: int) -> tuple[bytes, int]:
    """Bytes behind the unsigned varint of their size + 1: (bytes, position after them)."""
    start, stop = _bounds(data, position)
    return bytes(data[start:stop]), stop


def long_string(data: Any, position: int) -> tuple[str, int]:
    """As `long_bytes`, a string; Kafka reads none longer than an int16 can tell."""
    start, stop = _bounds(data, position)
    if stop - start > LONGEST_STRING_BYTES:
        raise ValueError(f"string of {stop - start} bytes")
    return bytes(data[start:stop]).decode(), stop


def _bounds(data: Any, position: int) -> tuple[int, int]:
    size, start = decode_uvarint(data, position)
    if not size:
        raise ValueError("null in more than one byte")
    return start, start + size - 1


def put_long_string(head: bytearray, value: bytes) -> None:
    """Append a compact string. Raises ValueError where Kafka would not read it."""
    if len(value) > LONGEST_STRING_BYTES:
        raise ValueError(f"string of {len(value)} bytes")
    head += encode_uvarint(len(value) + 1)
    head += value


def skip_tags(data: Any, position: int, end: int) -> int:
    """The position after a tagged section none of whose tags is known.

    Raises ValueError when there are more than MOST_TAGS, when a tag does not ascend (a duplicate)
    or its value goes past `end`.
    """
    count = data[position]
    if count > MOST_TAGS:
        raise ValueError(f"more than {MOST_TAGS} tagged fields")
    position += 1
    last = -1
    for _ in range(count):
        tag, position = decode_uvarint(data, position)
        size, position = decode_uvarint(data, position)
        position += size
        if tag <= last or position > end:
            raise ValueError(f"tag {tag} of {size} bytes after {last}")
        last = tag
    return position
