"""Decodes and encodes the records of v2 batches, headers included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from wirekafka.codec import batch as layout
from wirekafka.codec.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from wirekafka.codec.compression import DEFAULT_LIMIT_BYTES, Codec, compress, decompress
from wirekafka.codec.crc import crc32c
from wirekafka.codec.varint import decode_varint, decode_varlong, encode_varint
from wirekafka.errors import Error, KafkaError

SMALLEST_RECORD_BYTES = 7
"""Length, attributes, two deltas, two lengths and a header count, one byte each."""


_UNCHECKED, _CHECKED = Struct(">qiibI"), Struct(">hiqqqhii")
"""The fields of `HEADER` up to the checksum, and the fields behind the checksum, which it
covers."""

_new_record: Any = tuple.__new__


class Record(NamedTuple):
    """One record; timestamp in ms since the epoch, -1 for none; headers as (name, value)."""

    offset: int = -1
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True, frozen=True, kw_only=True)
class BatchOptions:
    """The properties of a batch that do not follow from its records.

    `level` None is the codec's default in Kafka. `log_append_time_ms`, when given, makes it a
    LogAppendTime batch of that time. `delete_horizon_ms` is set by a cleaner (KIP-534).
    """

    base_offset: int = 0
    leader_epoch: int = layout.NO_LEADER_EPOCH
    compression: int = Codec.NONE
    level: int | None = None
    producer_id: int = layout.NO_PRODUCER_ID
    producer_epoch: int = layout.NO_PRODUCER_EPOCH
    base_sequence: int = layout.NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    log_append_time_ms: int | None = None
    delete_horizon_ms: int | None = None


PLAIN = BatchOptions()


def encode_batch(records: Iterable[Record], *, options: BatchOptions = PLAIN) -> bytes:
    """Encode a batch whose records have consecutive offsets from `options.base_offset` on.

    The `offset` of each record is ignored. There must be at least one record.
    """
    batch, count = _encode(enumerate(records), None, options)
    assert count, "a batch holds at least one record"
    return batch


def encode_sparse_batch(
    records: Sequence[Record], last_offset: int, *, options: BatchOptions = PLAIN
) -> bytes:
    """Encode a batch whose records keep their offsets, as after compaction; may be empty.

    `last_offset` is the last offset the batch covers, which may lie after its last record.
    """
    base = options.base_offset
    placed = ((record.offset - base, record) for record in records)
    return _encode(placed, last_offset - base, options)[0]


def _encode(
    placed: Iterable[tuple[int, Record]], last_delta: int | None, options: BatchOptions
) -> tuple[bytes, int]:
    """The batch of records with their offset deltas, and how many they are."""
    base_timestamp, newest, count = options.delete_horizon_ms, None, 0
    body = bytearray()
    for delta, record in placed:
        timestamp = record.timestamp
        if base_timestamp is None:
            base_timestamp = timestamp
        if newest is None or timestamp > newest:
            newest = timestamp
        body += encode_record(record, delta, timestamp - base_timestamp)
        count += 1
    packed = compress(options.compression, body, options.level) if options.compression else body
    batch = _assemble(
        packed,
        options,
        count=count,
        last_offset_delta=count - 1 if last_delta is None else last_delta,
        base_timestamp=layout.NO_TIMESTAMP if base_timestamp is None else base_timestamp,
        max_timestamp=layout.NO_TIMESTAMP if newest is None else newest,
    )
    return batch, count


def batch_of(
    body: Buffer,
    count: int,
    timestamp: int,
    options: BatchOptions,
    *,
    max_timestamp: int | None = None,
) -> bytes:
    """Make a batch of `count` encoded records, at least one, with consecutive offsets.

    `body` has one `encode_record` or `encode_pair` after the other, with offset deltas from 0 on
    and timestamp deltas from `timestamp` on, in ms; `max_timestamp` None means no deltas.
    """
    if options.compression:
        body = compress(options.compression, body, options.level)
    return _assemble(
        body,
        options,
        count=count,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp if max_timestamp is None else max_timestamp,
    )


def _assemble(
    body: Buffer,
    options: BatchOptions,
    *,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
) -> bytes:
    attributes = (
        options.compression
        | (layout.TRANSACTIONAL_BIT if options.is_transactional else 0)
        | (layout.CONTROL_BIT if options.is_control else 0)
        | (layout.DELETE_HORIZON_BIT if options.delete_horizon_ms is not None else 0)
    )
    if options.log_append_time_ms is not None:
        attributes |= layout.LOG_APPEND_TIME_BIT
        max_timestamp = options.log_append_time_ms
    checked = _CHECKED.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        options.producer_id,
        options.producer_epoch,
        options.base_sequence,
        count,
    )
    unchecked = _UNCHECKED.pack(
        options.base_offset,
        HEADER_BYTES - layout.LOG_OVERHEAD_BYTES + len(body),
        options.leader_epoch,
        layout.MAGIC,
        crc32c(body, crc32c(checked)),
    )
    return b"".join((unchecked, checked, body))


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """Encode a record, prefixed by its length, with these deltas for its offset and timestamp."""
    _, _, key, value, headers = record
    if key is None and value is not None and not headers:
        # A record of the metadata log; thousands of them are encoded in one go.
        size = encode_varint(len(value))
        body = b"\0%b%b\x01%b%b\0" % (
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            size,
            value,
        )
        return encode_varint(len(body)) + body
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    if key is None:
        parts.append(b"\x01")
    else:
        parts += (encode_varint(len(key)), key)
    if value is None:
        parts.append(b"\x01")
    else:
        parts += (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, header in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if header is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(header)), header)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def encode_pair(key: bytes, value: bytes | None, offset_delta: int) -> bytes:
    """Encode a record without headers, at the time of its batch, as coordinators write them.

    A rebalance writes one for each member, so this takes a single step.
    """
    if value is None:
        body = b"\0\0%b%b%b\x01\0" % (encode_varint(offset_delta), encode_varint(len(key)), key)
    else:
        body = b"\0\0%b%b%b%b%b\0" % (
            encode_varint(offset_delta),
            encode_varint(len(key)),
            key,
            encode_varint(len(value)),
            value,
        )
    return encode_varint(len(body)) + body


def decode_records(
    batch: Buffer, header: BatchHeader | None = None, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> list[Record]:
    """Decode all records of one complete batch, control records included; offsets are absolute.

    The checksum is not verified. Raises KafkaError(INVALID_RECORD) for malformed records, a
    wrong count, or data beyond `limit_bytes`; CORRUPT_MESSAGE for broken compression.
    """
    header = header or read_header(batch)
    return decode_body(record_bytes(batch, header, limit_bytes=limit_bytes), header)


def decode_body(body: bytes, header: BatchHeader) -> list[Record]:
    """Decode the records of a batch from its uncompressed body; raises as `decode_records`."""
    return list(iterate_body(body, header))


def iterate_body(body: bytes, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch one after the other, for readers that keep few of them.

    Raises as `decode_records`, also for bytes after the last record.
    """
    if header.count < 0:
        raise invalid(f"Found invalid record count {header.count} in magic v2 batch")
    if header.count * SMALLEST_RECORD_BYTES > len(body):
        raise invalid(f"Found {header.count} records declared in {len(body)} bytes")
    append_time = header.max_timestamp if header.timestamp_type else None
    position = 0
    for _ in range(header.count):
        try:
            record, position = _decode_record(body, position, header, append_time)
        except (IndexError, ValueError) as error:
            raise invalid(f"Found invalid record structure: {error}") from error
        yield record
    if position != len(body):
        raise invalid("Incorrect declared batch size, records still remaining in file")


def record_bytes(
    batch: Buffer, header: BatchHeader, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> bytes:
    """The uncompressed body of a batch: its records, one after the other."""
    body = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.attributes & layout.COMPRESSION_MASK:
        return bytes(decompress(header.compression, body, limit_bytes))
    # Indexing bytes is a third faster than indexing a view, and records are slices of them.
    return bytes(body)


def invalid(message: str) -> KafkaError:
    """INVALID_RECORD for a batch whose records contradict its header."""
    return KafkaError(Error.INVALID_RECORD, message)


def _decode_record(
    body: bytes, position: int, header: BatchHeader, append_time: int | None
) -> tuple[Record, int]:
    size, position = decode_varint(body, position)
    end = position + size
    if size < SMALLEST_RECORD_BYTES - 1 or end > len(body):
        raise ValueError(f"a record of {size} bytes where {len(body) - position} are left")
    # The attributes byte has no bits in use.
    timestamp_delta, position = decode_varlong(body, position + 1)
    offset_delta, position = decode_varint(body, position)
    key: bytes | None = None
    size, position = decode_varint(body, position)
    if size >= 0:
        key = body[position : position + size]
        position += size
    value: bytes | None = None
    size, position = decode_varint(body, position)
    if size >= 0:
        value = body[position : position + size]
        position += size
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if position >= end:
        raise ValueError("a key or value longer than its record")
    if body[position]:
        headers, position = _decode_headers(body, position, end)
    else:
        position += 1
    if position != end:
        raise ValueError(f"{end - position} bytes of a record left over")
    timestamp = header[7] + timestamp_delta if append_time is None else append_time
    return _new_record(Record, (header[0] + offset_delta, timestamp, key, value, headers)), end


def _decode_nullable(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(body, position)
    if size < 0:
        return None, position
    stop = position + size
    if stop > end:
        raise ValueError(f"a field of {size} bytes where {end - position} are left")
    return body[position:stop], stop


def _decode_headers(
    body: bytes, position: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(body, position)
    if not 0 <= count <= (end - position) // 2:
        raise ValueError(f"{count} headers where {end - position} bytes are left")
    headers = []
    for _ in range(count):
        name, position = _decode_nullable(body, position, end)
        if name is None:
            raise ValueError("a header without a name")
        value, position = _decode_nullable(body, position, end)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


__all__ = [
    "BatchOptions",
    "Record",
    "batch_of",
    "decode_body",
    "decode_records",
    "encode_batch",
    "encode_pair",
    "encode_record",
    "encode_sparse_batch",
    "iterate_body",
    "record_bytes",
]
