"""Recognizes Produce requests of many batches, as opposed to large ones, without decoding."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from wirekafka.codec.varint import decode_uvarint

MOST_BATCHES: Final = 256
"""The most topics and partitions that a request may name and be served in one turn."""
_FEW_BYTES = 1 << 14
"""What cannot have more elements than may be served in one turn."""
_FLEXIBLE_SINCE, _TOPIC_IDS_SINCE = 9, 13
_TOPIC_ID_BYTES, _INDEX_BYTES = 16, 4
_ACKS_AND_TIMEOUT_BYTES = 6
_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from

_Size = Callable[[Any, int], tuple[int, int]]
"""Returns (size, position after it), given the buffer and the position of a size; null is 0."""


def has_many_batches(data: Any, at: int, end: int, version: int) -> bool:
    """Whether the body at `data[at:end]` names many topics and partitions.

    It takes 1 µs for each batch, of which a request of large batches has few: the search ends
    with the last large batch. A malformed request may have any number.
    """
    try:
        return _names_many(data, at, end, version)
    except (IndexError, StructError, ValueError):
        return True


def _names_many(data: Any, at: int, end: int, version: int) -> bool:
    is_flexible = version >= _FLEXIBLE_SINCE
    string: _Size = _compact if is_flexible else _short
    size: _Size = _compact if is_flexible else _long
    left = MOST_BATCHES
    length, at = string(data, at)
    topics, at = size(data, at + length + _ACKS_AND_TIMEOUT_BYTES)
    for _ in range(topics):
        length, at = (_TOPIC_ID_BYTES, at) if version >= _TOPIC_IDS_SINCE else string(data, at)
        partitions, at = size(data, at + length)
        left -= 1 + partitions
        if left < 0:
            return True
        for _ in range(partitions):
            length, at = size(data, at + _INDEX_BYTES)
            at += length
            if end - at <= _FEW_BYTES:
                return False
            if is_flexible:
                at = _after_no_tags(data, at)
        if is_flexible:
            at = _after_no_tags(data, at)
    return False


def _after_no_tags(data: Any, at: int) -> int:
    if data[at]:
        raise ValueError("tags that Kafka's schema does not have")
    return at + 1


def _compact(data: Any, at: int) -> tuple[int, int]:
    size = data[at]
    if size < 128:
        return max(0, size - 1), at + 1
    size, at = decode_uvarint(data, at)
    return max(0, size - 1), at


def _short(data: Any, at: int) -> tuple[int, int]:
    return max(0, _int16(data, at)[0]), at + 2


def _long(data: Any, at: int) -> tuple[int, int]:
    return max(0, _int32(data, at)[0]), at + 4
