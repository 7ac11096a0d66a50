"""Decodes message sets of magic 0 and 1, the form of logs before record batches (Kafka 0.10)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.codec.batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    NO_TIMESTAMP,
    Buffer,
)
from wirekafka.codec.compression import DEFAULT_LIMIT_BYTES, Codec, decompress
from wirekafka.codec.record import Record, invalid

NO_TIMESTAMP_TYPE = -1
"""The timestamp type of messages of magic 0, which have no timestamps."""

_ENTRY = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_LZ4_DESCRIPTOR_FROM = 4
_LZ4_HAS_SIZE, _LZ4_HAS_DICTIONARY = 0x08, 0x01
_LEAST_ENTRY_BYTES = _ENTRY.size + 2 * _SIZE.size


class MessageSetEntry(NamedTuple):
    """One entry of a message set: a record, or compressed inner messages as its value."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> int:
        """The codec number in the attributes."""
        return self.attributes & COMPRESSION_MASK

    @property
    def has_append_time(self) -> bool:
        """Whether the broker has set the timestamp, for all inner messages too."""
        return self.magic == 1 and self.attributes & LOG_APPEND_TIME_BIT != 0


def is_intact_message(entry: Buffer) -> bool:
    """Whether the checksum (CRC-32) of one whole entry is right."""
    if len(entry) < _LEAST_ENTRY_BYTES:
        return False
    crc: int = _ENTRY.unpack_from(entry)[2]
    return zlib.crc32(memoryview(entry)[MAGIC_AT:]) == crc


def decode_message_set(
    entry: Buffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> tuple[MessageSetEntry, list[Record]]:
    """The outer message and the records of one whole entry of a log of magic 0 or 1.

    The outer checksum is not verified, the inner ones are. Raises KafkaError(INVALID_RECORD) for
    malformed messages, CORRUPT_MESSAGE for broken compression.
    """
    try:
        outer = _decode(memoryview(entry))
        if not outer.compression:
            return outer, [Record(outer.offset, outer.timestamp, outer.key, outer.value)]
        return outer, list(_inner_records(outer, limit_bytes))
    except (struct.error, ValueError) as error:
        raise invalid(f"Found invalid message structure: {error}") from error


def _decode(entry: memoryview) -> MessageSetEntry:
    offset, length, _, magic, attributes = _ENTRY.unpack_from(entry)
    if magic not in (0, 1):
        raise ValueError(f"magic {magic} in a message set")
    if length + LOG_OVERHEAD_BYTES != len(entry):
        raise ValueError(f"a message of {length} bytes in {len(entry)}")
    at, timestamp = _ENTRY.size, NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(entry, at)
        at += _TIMESTAMP.size
    key, at = _nullable(entry, at)
    value, at = _nullable(entry, at)
    if at != len(entry):
        raise ValueError(f"{len(entry) - at} bytes of a message left over")
    return MessageSetEntry(offset, magic, attributes, timestamp, key, value)


def _nullable(entry: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(entry, at)
    at += _SIZE.size
    if size < 0:
        return None, at
    if size > len(entry) - at:
        raise ValueError(f"a field of {size} bytes where {len(entry) - at} are left")
    return bytes(entry[at : at + size]), at + size


def _inner_records(outer: MessageSetEntry, limit_bytes: int) -> Iterator[Record]:
    if outer.value is None:
        raise ValueError("a compressed message without a value")
    value = outer.value
    if outer.compression == Codec.LZ4 and outer.magic == 0:
        value = _with_right_lz4_checksum(value)
    inner = list(_messages(memoryview(decompress(outer.compression, value, limit_bytes))))
    if not inner:
        raise ValueError("a compressed message without inner messages")
    # Offsets of magic 1 count from the first message, and the outer offset is the last one's.
    base = outer.offset - inner[-1].offset if outer.magic else 0
    for message in inner:
        if message.magic != outer.magic or message.compression:
            raise ValueError("an inner message of another form than its outer one")
        timestamp = outer.timestamp if outer.has_append_time else message.timestamp
        yield Record(base + message.offset, timestamp, message.key, message.value)


def _messages(body: memoryview) -> Iterator[MessageSetEntry]:
    at = 0
    while at < len(body):
        _, length, *_ = _ENTRY.unpack_from(body, at)
        stop = at + LOG_OVERHEAD_BYTES + length
        if length < _LEAST_ENTRY_BYTES - LOG_OVERHEAD_BYTES or stop > len(body):
            raise ValueError(f"an inner message of {length} bytes where {len(body) - at} are left")
        if not is_intact_message(body[at:stop]):
            raise ValueError("wrong checksum of an inner message")
        yield _decode(body[at:stop])
        at = stop


def _with_right_lz4_checksum(frame: bytes) -> bytes:
    """An lz4 frame with a right header checksum, which clients of magic 0 computed wrongly.

    They included the frame's magic number (KAFKA-3160).
    """
    import xxhash

    if len(frame) <= _LZ4_DESCRIPTOR_FROM:
        raise ValueError("the lz4 frame ends early")
    flags = frame[_LZ4_DESCRIPTOR_FROM]
    stop = _LZ4_DESCRIPTOR_FROM + 2
    stop += (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
    checksum = xxhash.xxh32_intdigest(frame[_LZ4_DESCRIPTOR_FROM:stop]) >> 8 & 0xFF
    return frame[:stop] + bytes((checksum,)) + frame[stop + 1 :]
