"""The rare cases of compact encoding (KIP-482): values of 127 bytes and more, unknown tags."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.varint import decode_uvarint, encode_uvarint

LONGEST_STRING_BYTES = 32767

# Limits for a message of any size, so that decoding does not block the event loop.
MOST_ELEMENTS = 1_000_000
"""Kafka's limit for one array; here for all arrays and tagged fields of a message together."""
MOST_TAGS = 10_000
"""Kafka's limit for the tagged fields of one struct. Unknown ones are skipped, not stored."""
LARGEST_TAG_BYTES = 128 << 10


def long_bytes(data: Any, position: int) -> tuple[bytes, int]:
    """Decode bytes that follow the unsigned varint of their size + 1: (bytes, next position)."""
    start, stop = _bounds(data, position)
    return bytes(data[start:stop]), stop


def long_string(data: Any, position: int) -> tuple[str, int]:
    """As `long_bytes`, for a string of at most 32767 bytes, which is Kafka's limit."""
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
    """Append a compact string. Raises ValueError above 32767 bytes, which is Kafka's limit."""
    if len(value) > LONGEST_STRING_BYTES:
        raise ValueError(f"string of {len(value)} bytes")
    head += encode_uvarint(len(value) + 1)
    head += value


def skip_tags(data: Any, position: int, end: int) -> int:
    """Skip a section of tagged fields that are all unknown; returns the position after it.

    Raises ValueError when there are more than MOST_TAGS, when a tag does not ascend (a duplicate),
    or its value goes past `end` or takes more than LARGEST_TAG_BYTES.
    """
    count, position = decode_uvarint(data, position)
    if count > MOST_TAGS:
        raise ValueError(f"more than {MOST_TAGS} tagged fields")
    last = -1
    for _ in range(count):
        tag, position = decode_uvarint(data, position)
        size, position = decode_uvarint(data, position)
        position += size
        if tag <= last or position > end or size > LARGEST_TAG_BYTES:
            raise ValueError(f"tag {tag} of {size} bytes after {last}")
        last = tag
    return position
