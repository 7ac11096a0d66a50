"""The part of one batch that a cleaner keeps: all records, some, an empty header, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wirekafka.codec import batch as layout
from wirekafka.codec.batch import CRC_COVERS_FROM, HEADER, HEADER_BYTES, BatchHeader, Buffer
from wirekafka.codec.compression import compress
from wirekafka.codec.crc import crc32c
from wirekafka.codec.record import SMALLEST_RECORD_BYTES, invalid, record_bytes
from wirekafka.codec.varint import decode_varint, decode_varlong, encode_varint
from wirekafka.log.compaction.cleaned_transactions import CleanedTransactions
from wirekafka.log.compaction.offset_map import OffsetMap

LATEST_MS = (1 << 63) - 1
_MOST_REMEMBERED = 1 << 14


class RecordOutline(NamedTuple):
    """The position of a record in a batch body, and the fields that decide whether it is kept.

    `rest_at` is the position after its timestamp delta.
    """

    key: bytes | None
    offset_delta: int
    has_value: bool
    timestamp_delta: int
    start: int
    rest_at: int
    end: int


class LastRecord(NamedTuple):
    """The last data offset (-1: none) and epoch of a producer that the log remembers."""

    offset: int
    epoch: int


class Retention:
    """Kafka's rules for what one cleaning keeps; batches must come in order of offsets."""

    def __init__(
        self,
        latest: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
    ):
        self._latest = latest
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, LATEST_MS)
        self._remembered: dict[bytes, int] = {}

    def keep(self, header: BatchHeader, batch: Buffer, ends_segment: bool) -> Buffer | None:
        """The batch as it is kept: unchanged if no record is dropped, None if nothing is kept.

        The last batch of a segment is kept at least empty, so that the segment's end stays known.
        Raises KafkaError for records that cannot be read.
        """
        is_obsolete = self._transactions.is_obsolete(header, batch)
        horizon = header.delete_horizon
        drops_all = is_obsolete
        if header.is_control and is_obsolete:
            drops_all = horizon is not None and horizon <= self._now_ms
        keeps_empty = ends_segment or self._is_last_of_producer(header)
        if drops_all:
            return emptied(header) if keeps_empty else None
        body = record_bytes(batch, header)
        records = outlines(body, header.count)
        kept = records if header.is_control else self._kept(records, header)
        if not kept:
            return emptied(header) if keeps_empty else None
        if horizon is None and (
            (is_obsolete and header.is_control) or not all(record.has_value for record in kept)
        ):
            return rebuilt(header, body, kept, self._horizon_ms)
        return batch if len(kept) == len(records) else rebuilt(header, body, kept, horizon)

    def _kept(self, records: list[RecordOutline], header: BatchHeader) -> list[RecordOutline]:
        base_offset, latest_offset = header.base_offset, self._latest.latest_offset
        horizon = header.delete_horizon
        keeps_tombstones = horizon is None or self._now_ms < horizon
        remembered = self._remembered
        if len(remembered) > _MOST_REMEMBERED:
            remembered.clear()
        kept = []
        for record in records:
            offset = base_offset + record.offset_delta
            if offset <= latest_offset:
                key = record.key
                if key is None:
                    continue  # Left from before the topic was compacted.
                latest = remembered.get(key)
                if latest is None:
                    latest = remembered[key] = self._latest.get(key)
                if offset < latest or not (record.has_value or keeps_tombstones):
                    continue
            kept.append(record)
        return kept

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0:
            return False
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return header.end_offset - 1 == last.offset
        return header.is_control and header.producer_epoch == last.epoch


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records; its header still has the producer's last sequence."""
    attributes = header.attributes & (
        layout.LOG_APPEND_TIME_BIT | layout.TRANSACTIONAL_BIT | layout.CONTROL_BIT
    )
    return _sealed(
        header._replace(
            length=HEADER_BYTES - layout.LOG_OVERHEAD_BYTES,
            attributes=attributes,
            base_timestamp=layout.NO_TIMESTAMP,
            count=0,
        ),
        b"",
    )


def rebuilt(
    header: BatchHeader, body: bytes, kept: list[RecordOutline], horizon: int | None
) -> bytes:
    """The batch with some of its records only: same compression, offsets and sequences.

    A delete horizon in ms replaces the base timestamp (KIP-534).
    """
    first = header.base_timestamp + kept[0].timestamp_delta
    base_timestamp = first if horizon is None else horizon
    shift = header.base_timestamp - base_timestamp
    parts: list[bytes] = []
    for record in kept:
        rest = body[record.rest_at : record.end]
        if shift:
            timestamp = encode_varint(record.timestamp_delta + shift)
            parts += (encode_varint(1 + len(timestamp) + len(rest)), b"\0", timestamp, rest)
        else:
            parts.append(body[record.start : record.end])
    data = b"".join(parts)
    max_timestamp = header.max_timestamp
    attributes = header.attributes & ~layout.DELETE_HORIZON_BIT
    if not header.timestamp_type:
        max_timestamp = header.base_timestamp + max(record.timestamp_delta for record in kept)
    if horizon is not None:
        attributes |= layout.DELETE_HORIZON_BIT
    data = compress(header.compression, data) if header.compression else data
    return _sealed(
        header._replace(
            length=HEADER_BYTES - layout.LOG_OVERHEAD_BYTES + len(data),
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            count=len(kept),
        ),
        data,
    )


def keys_in(body: bytes, count: int) -> list[tuple[bytes | None, int]]:
    """Key and offset delta of each record. Raises KafkaError(INVALID_RECORD)."""
    return [record[:2] for record in outlines(body, count)]


def outlines(body: bytes, count: int) -> list[RecordOutline]:
    """The outline of each record, in order. Raises KafkaError(INVALID_RECORD)."""
    found: list[RecordOutline] = []
    position = 0
    end = len(body)
    try:
        for _ in range(count):
            start = position
            low = body[position]
            if low < 128:
                size, position = (low >> 1) ^ -(low & 1), position + 1
            else:
                size, position = decode_varint(body, position)
            stop = position + size
            if size < SMALLEST_RECORD_BYTES - 1 or stop > end:
                raise ValueError(f"a record of {size} bytes where {end - position} are left")
            low = body[position + 1]
            if low < 128:
                timestamp_delta, rest_at = (low >> 1) ^ -(low & 1), position + 2
            else:
                timestamp_delta, rest_at = decode_varlong(body, position + 1)
            low = body[rest_at]
            if low < 128:
                offset_delta, position = (low >> 1) ^ -(low & 1), rest_at + 1
            else:
                offset_delta, position = decode_varint(body, rest_at)
            size, position = decode_varint(body, position)
            key = None
            if size >= 0:
                key = body[position : position + size]
                position += size
            size, _ = decode_varint(body, position)
            if position >= stop:
                raise ValueError("a key longer than its record")
            found.append(
                _new(
                    RecordOutline,
                    (key, offset_delta, size >= 0, timestamp_delta, start, rest_at, stop),
                )
            )
            position = stop
    except (IndexError, ValueError) as error:
        raise invalid(f"Found invalid record structure: {error}") from None
    if position != end:
        raise invalid("Incorrect declared batch size, records still remaining in file")
    return found


def _sealed(header: BatchHeader, body: bytes) -> bytes:
    out = bytearray(HEADER.pack(*header))
    out += body
    crc = crc32c(memoryview(out)[CRC_COVERS_FROM:])
    out[layout.CRC_AT : CRC_COVERS_FROM] = crc.to_bytes(4, "big")
    return bytes(out)


_new = tuple.__new__
