"""Converts a valid batch to its topic's form: checks keys and times, sets time and compression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wirekafka.codec.batch import (
    CREATE_TIME,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    PREFIX_BYTES,
    BatchHeader,
    Buffer,
    read_header,
    with_timestamp,
)
from wirekafka.codec.compression import DEFAULT_LIMIT_BYTES, Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch, iterate_body, record_bytes
from wirekafka.codec.walk import Outline, outlines
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import (
    Append,
    Checked,
    Origin,
    RecordsRefused,
    TakesLong,
    invalid_record,
    invalid_records,
    too_large,
)

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_NO_TIMESTAMPS = "One or more records have been rejected due to invalid timestamp"
MOST_ERRORS = 10_000
"""How many records are named in a response; Kafka names all, however many."""
MOST_HELD_BYTES = 32 << 20
"""The most bytes of inflated records in a batch that is converted or checked record by record: the
records are held in memory, and twice where they are compressed anew."""


class Incoming(NamedTuple):
    """A batch with valid framing and header.

    `body` is its inflated records; it is empty if the batch is trusted, or large.
    """

    view: memoryview
    header: BatchHeader
    body: bytes | memoryview
    append: Append
    config: TopicConfig
    name: str


def convert(incoming: Incoming) -> Checked:
    """The batch as this topic stores it.

    Raises RecordsRefused: INVALID_RECORD or INVALID_TIMESTAMP with the records at fault,
    MESSAGE_TOO_LARGE when the batch is too large after recompression. Raises TakesLong if the
    append defers long checks and the records' schemas must be looked up.
    """
    view, header, _, append, config, _ = incoming
    if append.ahead is not None:
        return append.ahead
    if config.validates_schemas and append.defers:
        append.long_crc = header.crc
        raise TakesLong
    is_create_time = config.message_timestamp_type == "CreateTime"
    newest = header.max_timestamp
    if append.origin is Origin.CLIENT:
        newest = _newest_if_acceptable(incoming, is_create_time)
    if _stored_codec(header, config) != header.compression:
        return _recompress(incoming)
    if not is_create_time:
        return _rewritten(with_timestamp(view, LOG_APPEND_TIME, append.now_ms), append.now_ms)
    if header.timestamp_type or newest != header.max_timestamp:
        return _rewritten(with_timestamp(view, CREATE_TIME, newest), -1)
    return Checked(header, (view[PREFIX_BYTES:],), -1)


def is_recompressed(records: Buffer, config: TopicConfig) -> bool:
    """Whether a valid batch of a client is stored with another compression than it was sent."""
    header = read_header(records)
    return _stored_codec(header, config) != header.compression


def _newest_if_acceptable(incoming: Incoming, is_create_time: bool) -> int:
    """The newest timestamp in ms. Raises for keyless records and timestamps out of bounds."""
    header, config = incoming.header, incoming.config
    if not is_create_time and header.timestamp_type:
        raise _claims_append_time(incoming)
    needs_keys = "compact" in config.cleanup_policy
    if not needs_keys and not is_create_time:
        return header.max_timestamp
    oldest = newest = NO_TIMESTAMP
    lacks_key = False
    body = _records_of(incoming)
    try:
        for number, outline in enumerate(outlines(body, header)):
            timestamp = outline.timestamp
            if not number:
                newest = oldest = timestamp
            elif timestamp > newest:
                newest = timestamp
            elif timestamp < oldest:
                oldest = timestamp
            lacks_key = lacks_key or not outline.has_key
    except KafkaError as error:
        raise invalid_record(error.message or "") from error
    now_ms = incoming.append.now_ms
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    is_out_of_bounds = is_create_time and not (earliest <= oldest and newest <= latest)
    if is_out_of_bounds or (needs_keys and lacks_key):
        _refuse_records(incoming, outlines(body, header), earliest=earliest, latest=latest)
    return max(newest, NO_TIMESTAMP)


def _refuse_records(
    incoming: Incoming, found: Iterable[Outline], *, earliest: int, latest: int
) -> None:
    """Raise RecordsRefused for records without a key, else for timestamps out of bounds."""
    config = incoming.config
    needs_keys = "compact" in config.cleanup_policy
    is_create_time = config.message_timestamp_type == "CreateTime"
    errors: list[tuple[int, str]] = []
    has_bad_timestamp = False
    for index, (offset, timestamp, has_key) in enumerate(found):
        if len(errors) == MOST_ERRORS:
            break
        if needs_keys and not has_key:
            errors.append(
                (
                    index,
                    "Compacted topic cannot accept message without key in topic partition "
                    + incoming.name,
                )
            )
        elif is_create_time and timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            has_bad_timestamp = True
            errors.append(
                (
                    index,
                    f"Timestamp {timestamp} of message with offset {offset} is out of range. The"
                    f" timestamp should be within [{earliest}, {latest}]",
                )
            )
    if has_bad_timestamp:
        raise RecordsRefused(Error.INVALID_TIMESTAMP, _NO_TIMESTAMPS, _NO_TIMESTAMPS, errors)
    if errors:
        raise invalid_records(errors)


def _claims_append_time(incoming: Incoming) -> RecordsRefused:
    header, config = incoming.header, incoming.config
    # Kafka skips keys and values of compressed records that it stores as they are.
    is_skimmed = header.compression and _stored_codec(header, config) == header.compression
    kind = "PartialDefaultRecord" if is_skimmed else "DefaultRecord"
    errors = [
        (
            index,
            f"Invalid timestamp type in message {kind}(offset={record.offset},"
            f" timestamp={record.timestamp}, key={len(record.key or b'')} bytes,"
            f" value={len(record.value or b'')} bytes). Producer should not set timestamp type to"
            " LogAppendTime.",
        )
        for index, record in enumerate(islice(_decoded(incoming), MOST_ERRORS))
    ]
    return RecordsRefused(Error.INVALID_TIMESTAMP, _NO_TIMESTAMPS, _NO_TIMESTAMPS, errors)


def _stored_codec(header: BatchHeader, config: TopicConfig) -> int:
    # Kafka leaves markers uncompressed whatever the topic says.
    if config.compression_type == "producer" or header.is_control:
        return header.compression
    return _CODECS[config.compression_type]


def _recompress(incoming: Incoming) -> Checked:
    """The records in a new batch with the topic's compression and consecutive offsets."""
    _, header, _, append, config, _ = incoming
    is_create_time = config.message_timestamp_type == "CreateTime"
    codec = _CODECS[config.compression_type]
    options = BatchOptions(
        compression=codec,
        level=_level(codec, config),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        log_append_time_ms=None if is_create_time else append.now_ms,
    )
    batch = encode_batch(_decoded(incoming), options=options)
    if len(batch) > config.max_message_bytes:
        raise too_large(len(batch), config.max_message_bytes)
    return Checked(
        read_header(batch),
        (memoryview(batch)[PREFIX_BYTES:],),
        -1 if is_create_time else append.now_ms,
    )


def _level(codec: Codec, config: TopicConfig) -> int | None:
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def _decoded(incoming: Incoming) -> Iterator[Record]:
    body = _records_of(incoming)
    header = incoming.header
    try:
        yield from iterate_body(bytes(body), header)
    except KafkaError as error:
        raise invalid_record(error.message or "") from error


def _records_of(incoming: Incoming) -> bytes | memoryview:
    """The inflated records, up to the limit of records in memory. Raises RecordsRefused."""
    if incoming.body:
        return incoming.body
    limit_bytes = DEFAULT_LIMIT_BYTES
    if incoming.append.origin is Origin.CLIENT:
        limit_bytes = MOST_HELD_BYTES
    try:
        return record_bytes(incoming.view, incoming.header, limit_bytes=limit_bytes)
    except KafkaError as error:
        raise invalid_record(error.message or "") from error


def _rewritten(parts: Sequence[Buffer], log_append_time_ms: int) -> Checked:
    header = parts[0]
    return Checked(
        read_header(header),
        (memoryview(header)[PREFIX_BYTES:HEADER_BYTES], parts[1]),
        log_append_time_ms,
    )
