"""Validates a batch before a leader appends it, as Kafka's LogValidator does."""

from __future__ import annotations

from struct import error as StructError
from typing import Any

from wirekafka.codec.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    PREFIX_BYTES,
    SIZE,
    SMALLEST_LENGTH,
    BatchHeader,
    Buffer,
)
from wirekafka.codec.compression import PIECE_BYTES, Codec, announced_bytes, pieces
from wirekafka.codec.crc import crc32c
from wirekafka.codec.record import record_bytes
from wirekafka.codec.record_stream import RecordStream
from wirekafka.codec.walk import check_framing, check_record, longest_record
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import (
    Append,
    Checked,
    Origin,
    RecordsRefused,
    TakesLong,
    invalid_record,
    too_large,
)
from wirekafka.log.conversion import Incoming, convert

MOST_INFLATED_BYTES = 128 << 20
"""The most bytes that a client's compressed batch may inflate to: well above any request, well
below memory."""

_INLINE_BYTES = 1 << 20
"""The most bytes that are inflated at once and on the event loop, in some milliseconds: more than
the batches of most clients inflate to. A larger batch is checked in a thread while it is inflated,
which takes two to three times the processor time."""

_CLIENT = Origin.CLIENT
_new: Any = tuple.__new__
_unpack_header = HEADER.unpack_from


def validate(records: Buffer, append: Append, config: TopicConfig, name: str = "") -> Checked:
    """Check the one batch of a partition as Kafka 4.4's leader does, and convert it to the topic.

    `name` is `<topic>-<partition>`, for messages. Raises RecordsRefused: CORRUPT_MESSAGE for a
    broken frame or checksum, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR for broken
    compression (as Kafka returns), INVALID_RECORD for everything else. Raises TakesLong if the
    append defers long checks.

    Not everything that Kafka checks is checked. Kafka parses every record of every batch. Here
    the header decides where it can, and records are skipped by their lengths alone, compressed
    ones after inflating them within a bound: so a wrong count, a torn record or a decompression
    bomb never reaches the log, at 0.03 to 0.1 us a record where a parse takes ten times that. The
    last record, often the only one, is checked fully, and its timestamp compared with the header's
    maximum, which catches clients that set it carelessly. The others are checked one by one only
    where the header does not suffice: compacted topics (keys), a lower timestamp bound, a maximum
    out of bounds or contradicted. They are decoded only for recompression. What passes unnoticed
    is invalid content of an earlier record or a wrong newest timestamp: that harms the client's
    own readers, not offsets, framing or memory.
    """
    try:
        fields = _unpack_header(records)
    except StructError:
        _only_batch(records)  # Raises the error for less than a header.
        raise
    if fields[1] + LOG_OVERHEAD_BYTES != len(records) or fields[3] != MAGIC:
        records = _only_batch(records)
    header: BatchHeader = _new(BatchHeader, fields)
    view = records if records.__class__ is memoryview else memoryview(records)
    body: bytes | memoryview = b""
    is_credible = True
    if append.origin is _CLIENT:
        body, is_credible = _check_client_batch(view, fields, config, append)
    elif len(view) > config.max_message_bytes and not header.is_control:
        raise too_large(len(view), config.max_message_bytes)
    elif (
        config.compression_type == "producer"
        and not config.is_stamped_on_append
        and not fields[5] & LOG_APPEND_TIME_BIT
    ):
        own: Checked = _new(Checked, (header, (view[PREFIX_BYTES:],), -1))
        return own  # As it was made by this broker: `convert` would find nothing to change.
    if (
        is_credible
        and config.stores_as_sent
        and fields[8] <= append.now_ms + config.message_timestamp_after_max_ms
        and not fields[5] & LOG_APPEND_TIME_BIT
    ):
        checked: Checked = _new(Checked, (header, (view[PREFIX_BYTES:],), -1))
        return checked
    return convert(Incoming(view, header, body, append, config, name))


def check_ahead(
    records: Buffer, now_ms: int, config: TopicConfig, name: str = ""
) -> Checked | RecordsRefused:
    """Check and convert a client's batch as `validate` does, for an append of it later.

    May run in a thread. A refusal is returned and not raised, as its traceback would keep the
    inflated records.
    """
    try:
        return validate(records, Append(leader_epoch=-1, now_ms=now_ms), config, name)
    except RecordsRefused as error:
        return RecordsRefused(error.error, error.detail, error.message, error.record_errors)


def _check_client_batch(
    view: memoryview, fields: tuple[int, ...], config: TopicConfig, append: Append
) -> tuple[bytes | memoryview, bool]:
    """Check a batch; its inflated records, and whether the header's maximum timestamp is credible.

    The records are empty where they are too many to be held at once. The timestamp is credible if
    it agrees with the first and the last record. `fields` are the header's fields as a plain tuple:
    unpacking a tuple costs 0.04 us, a BatchHeader 0.3.
    """
    (
        base_offset,
        length,
        _,
        _,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        newest,
        producer_id,
        _,
        base_sequence,
        count,
    ) = fields
    if base_offset:
        raise invalid_record(f"The base offset of an appended batch should be 0, not {base_offset}")
    if length + LOG_OVERHEAD_BYTES > config.max_message_bytes:
        raise too_large(length + LOG_OVERHEAD_BYTES, config.max_message_bytes)
    if crc32c(view[CRC_COVERS_FROM:]) != crc:
        raise RecordsRefused(Error.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {crc})")
    if last_delta + 1 != count or count <= 0:
        raise invalid_record(f"{count} records where the last offset delta is {last_delta}")
    if attributes & CONTROL_BIT:
        raise invalid_record("Clients are not allowed to write control records")
    if base_sequence < 0 <= producer_id:
        raise invalid_record(f"Invalid sequence number {base_sequence} of producer {producer_id}")
    body: bytes | memoryview = view[HEADER_BYTES:]
    if attributes & COMPRESSION_MASK:
        if append.ahead is not None:
            return b"", False  # `convert` has its result.
        inflated = _inflate(view, _new(BatchHeader, fields), append)
        if inflated is None:
            return b"", _check_stream(view, _new(BatchHeader, fields), config)
        body = inflated
    try:
        last = 0 if count == 1 else check_framing(body, count)
        timestamp_delta, offset_delta, end = check_record(body, last)
    except KafkaError as error:
        raise invalid_record(error.message or "") from error
    if end != len(body):
        raise invalid_record(f"The records take {end} of {len(body)} bytes")
    if offset_delta != last_delta and attributes & COMPRESSION_MASK:
        # Kafka renumbers plain records and gives up on compressed ones.
        raise RecordsRefused(Error.UNKNOWN_SERVER_ERROR, f"The last offset delta is {offset_delta}")
    if attributes & COMPRESSION_MASK and len(body) > config.max_decompressed_message_bytes:
        _check_longest(longest_record(body), config.max_decompressed_message_bytes)
    last_timestamp = base_timestamp + timestamp_delta
    if count == 1:
        return body, last_timestamp == newest >= NO_TIMESTAMP
    return body, last_timestamp <= newest >= base_timestamp and newest >= NO_TIMESTAMP


def _check_stream(view: memoryview, header: BatchHeader, config: TopicConfig) -> bool:
    """Check compressed records piece by piece; whether the header's timestamp is credible."""
    body = view[HEADER_BYTES:]
    stream = RecordStream(pieces(header.compression, body, MOST_INFLATED_BYTES))
    try:
        stream.skip(header.count - 1)
        timestamp_delta, offset_delta = stream.last()
        stream.end()
    except KafkaError as error:
        raise _refused(error, header) from error
    if offset_delta != header.last_offset_delta:
        raise RecordsRefused(Error.UNKNOWN_SERVER_ERROR, f"The last offset delta is {offset_delta}")
    _check_longest(stream.longest, config.max_decompressed_message_bytes)
    last_timestamp = header.base_timestamp + timestamp_delta
    newest = header.max_timestamp
    if header.count == 1:
        return last_timestamp == newest >= NO_TIMESTAMP
    return last_timestamp <= newest >= header.base_timestamp and newest >= NO_TIMESTAMP


def _check_longest(longest: int, most_bytes: int) -> None:
    if longest > most_bytes:
        raise invalid_record(
            f"A record of {longest} bytes, decompressed, where max.decompressed.message.bytes "
            f"allows {most_bytes}"
        )


def _only_batch(records: Buffer) -> memoryview:
    """The only v2 batch of a partition's records; an incomplete batch after it is dropped.

    Raises RecordsRefused: INVALID_RECORD for none, several or an old magic, CORRUPT_MESSAGE for
    invalid framing.
    """
    view = memoryview(records)
    try:
        size_bytes = _framed_bytes(view)
    except RecordsRefused as refused:
        refused.message = refused.detail  # In Kafka's response, as it fails the whole request.
        raise
    if size_bytes is None:
        raise invalid_record("Produce requests must have at least one record batch per partition")
    if view[MAGIC_AT] != MAGIC:
        raise invalid_record(
            "Produce requests are only allowed to contain record batches with magic version 2"
        )
    if _framed_bytes(view[size_bytes:]) is not None:
        raise invalid_record(
            "Produce requests are only allowed to contain exactly one record batch per partition"
        )
    if size_bytes < HEADER_BYTES:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE, f"A batch of {size_bytes} bytes is smaller than its header"
        )
    return view[:size_bytes]


def _framed_bytes(view: memoryview) -> int | None:
    """The size of the first batch; None if it is incomplete."""
    if len(view) < LOG_OVERHEAD_BYTES:
        return None
    (length,) = SIZE.unpack_from(view, LENGTH_AT)
    if length < SMALLEST_LENGTH:
        raise RecordsRefused(
            Error.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({SMALLEST_LENGTH})",
        )
    if len(view) <= MAGIC_AT:
        return None
    magic = view[MAGIC_AT] - (view[MAGIC_AT] & 0x80) * 2
    if not 0 <= magic <= MAGIC:
        raise RecordsRefused(Error.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size_bytes: int = length + LOG_OVERHEAD_BYTES
    return size_bytes if size_bytes <= len(view) else None


def _inflate(view: memoryview, header: BatchHeader, append: Append) -> bytes | None:
    """The inflated records; None if they are too many to be held. Raises TakesLong."""
    limit_bytes = min(_INLINE_BYTES, MOST_INFLATED_BYTES)
    if append.defers:
        if append.long_crc == header.crc:
            raise TakesLong
        announced = announced_bytes(header.compression, view[HEADER_BYTES:])
        if announced is not None:
            if announced > limit_bytes:
                append.long_crc = header.crc
                raise TakesLong
            # No more is inflated for a batch that announces too little.
            limit_bytes = min(limit_bytes, max(announced, PIECE_BYTES))
    try:
        return record_bytes(view, header, limit_bytes=limit_bytes)
    except KafkaError as error:
        if error.error is Error.CORRUPT_MESSAGE or header.compression > Codec.ZSTD:
            raise _refused(error, header) from error
        if append.defers:
            append.long_crc = header.crc
            raise TakesLong from error
        return None


def _refused(error: KafkaError, header: BatchHeader) -> RecordsRefused:
    if error.error is Error.CORRUPT_MESSAGE or header.compression > Codec.ZSTD:
        # Kafka's error code, intended or not; clients do not retry it.
        return RecordsRefused(Error.UNKNOWN_SERVER_ERROR, error.message or "")
    return invalid_record(error.message or "")
