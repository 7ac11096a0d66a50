"""The header of v2 record batches: decoding, iteration over batches, rewriting single fields."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from wirekafka.codec.crc import crc32c
from wirekafka.errors import Error, KafkaError

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER = Struct(">qiibIhiqqqhii")
"""61 bytes: the fields of `BatchHeader`, in order."""

PREFIX = Struct(">qii")
"""The first 16 bytes, which the broker rewrites and no checksum covers: offset, length, epoch."""

SIZE = Struct(">i")

HEADER_BYTES = HEADER.size
PREFIX_BYTES = PREFIX.size
LENGTH_AT = 8
LOG_OVERHEAD_BYTES = 12
"""Base offset and length, which a batch's length field does not count."""
MAGIC_AT = 16
CRC_AT = 17
CRC_COVERS_FROM = 21
ATTRIBUTES_AT = 21

MAGIC = 2
SMALLEST_LENGTH = 14
"""The overhead of a magic 0 record, and so the smallest valid length field."""

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
SEQUENCE_MASK = 0x7FFFFFFF

CREATE_TIME = 0
LOG_APPEND_TIME = 1

_ATTRIBUTES_TO_MAX = Struct(">Ihiqq")
_PRODUCER = Struct(">qhi")
_PRODUCER_AT = HEADER_BYTES - SIZE.size - _PRODUCER.size
"""Producer id, epoch and base sequence, which the number of records follows."""
_CRC = Struct(">I")


class BatchHeader(NamedTuple):
    """The fixed fields of a batch, named as Kafka names them; offsets and times as on disk."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's word; hides tuple.count

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, base offset and length field included."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def end_offset(self) -> int:
        """The offset after the last one this batch covers."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapping 2^31-1 to 0; -1 without a sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def compression(self) -> int:
        """The codec number in the attributes; 5 to 7 are undefined."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else CREATE_TIME

    @property
    def delete_horizon(self) -> int | None:
        """When tombstones and markers can be deleted, in ms; None if not set (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


_new_header = tuple.__new__
_unpack_header = HEADER.unpack_from


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Decode the header at a position. Raises struct.error where fewer than 61 bytes are left."""
    return _new_header(BatchHeader, _unpack_header(buffer, at))


def batches(buffer: Buffer, at: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every complete batch; an incomplete one at the end is left out.

    Checks framing only (`is_intact` checks the CRC). Raises KafkaError(CORRUPT_MESSAGE) for a
    length that cannot hold a batch or a magic other than 2.
    """
    end = len(buffer)
    while end - at >= MAGIC_AT + 1:
        (length,) = SIZE.unpack_from(buffer, at + LENGTH_AT)
        if length < SMALLEST_LENGTH:
            raise KafkaError(
                Error.CORRUPT_MESSAGE,
                f"Record size {length} is less than the minimum record overhead"
                f" ({SMALLEST_LENGTH})",
            )
        if buffer[at + MAGIC_AT] != MAGIC:
            raise KafkaError(
                Error.CORRUPT_MESSAGE,
                f"Invalid magic found in record: {_signed_byte(buffer[at + MAGIC_AT])}",
            )
        if at + LOG_OVERHEAD_BYTES + length > end:
            return
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise KafkaError(
                Error.CORRUPT_MESSAGE,
                f"Record batch is corrupted (the size {length + LOG_OVERHEAD_BYTES} is smaller"
                f" than the minimum allowed overhead {HEADER_BYTES})",
            )
        yield at, read_header(buffer, at)
        at += LOG_OVERHEAD_BYTES + length


def is_intact(buffer: Buffer, at: int = 0, header: BatchHeader | None = None) -> bool:
    """Whether the batch at a position is complete and its checksum is right."""
    header = header or read_header(buffer, at)
    end = at + header.size_bytes
    if header.length < HEADER_BYTES - LOG_OVERHEAD_BYTES or end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[at + CRC_COVERS_FROM : end]) == header.crc


def checksum(batch: Buffer) -> int:
    """The CRC-32C of a batch, which covers everything from the attributes on."""
    return crc32c(memoryview(batch)[CRC_COVERS_FROM:])


def with_prefix(batch: Buffer, base_offset: int, leader_epoch: int) -> list[Buffer]:
    """The batch with its base offset and leader epoch: a new 16-byte prefix, the rest uncopied."""
    view = memoryview(batch)
    length = len(view) - LOG_OVERHEAD_BYTES
    return [PREFIX.pack(base_offset, length, leader_epoch), view[PREFIX_BYTES:]]


def with_timestamp(batch: Buffer, timestamp_type: int, max_timestamp: int) -> list[Buffer]:
    """The batch with another timestamp type, maximum timestamp in ms, and checksum.

    Two buffers: a new header, and the uncopied body. Record deltas are not changed: readers of
    a LogAppendTime batch take the maximum for every record (KIP-32).
    """
    view = memoryview(batch)
    header = bytearray(view[:HEADER_BYTES])
    _, attributes, last_offset_delta, base_timestamp, _ = _ATTRIBUTES_TO_MAX.unpack_from(
        header, CRC_AT
    )
    attributes &= ~LOG_APPEND_TIME_BIT
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    _ATTRIBUTES_TO_MAX.pack_into(
        header, CRC_AT, 0, attributes, last_offset_delta, base_timestamp, max_timestamp
    )
    return _with_checksum(header, view[HEADER_BYTES:])


def with_producer(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int
) -> list[Buffer]:
    """The batch with another producer, sequence of its first record, and checksum.

    Two buffers: a new header, and the uncopied body.
    """
    view = memoryview(batch)
    header = bytearray(view[:HEADER_BYTES])
    _PRODUCER.pack_into(header, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    return _with_checksum(header, view[HEADER_BYTES:])


def _with_checksum(header: bytearray, body: memoryview) -> list[Buffer]:
    _CRC.pack_into(header, CRC_AT, crc32c(body, crc32c(memoryview(header)[CRC_COVERS_FROM:])))
    return [header, body]


def _signed_byte(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
