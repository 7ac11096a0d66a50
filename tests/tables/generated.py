"""Generated batches of all shapes, and the rows that they stand for by the slow decoder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa

from wirekafka.codec.batch import LOG_APPEND_TIME, batches
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_sparse_batch
from wirekafka.tables.rows import NO_LIMIT, Rows
from wirekafka.tables.scan import scan

TOPIC, PARTITION = "flights", 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZES = (0, 1, 7, 12, 13, 50, 63, 64, 65, 200, 9000)
_GAPS_MS = (0, 0, 1, -1, 63, 64, 8191, 8192, -9000, 1 << 21, 1 << 35)


def value_of(random: Random) -> bytes | None:
    """Bytes of a size around the limits that decoders know, or null."""
    if random.random() < 0.15:
        return None
    return random.randbytes(random.choice(_SIZES[: random.choice((4, 6, 9, 10, 11))]))


def records_of(random: Random, base_offset: int, count: int) -> list[Record]:
    """Records with rising offsets, with gaps if the random numbers want them."""
    step = random.choice((1, 1, 3, 5000))
    has_headers = random.random() < 0.4
    timestamp = random.choice((-1, 0, 1_700_000_000_000))
    offset, found = base_offset, []
    for _ in range(count):
        timestamp += random.choice(_GAPS_MS) if timestamp > 0 else 0
        headers = []
        if has_headers:
            for _ in range(random.choice((0, 1, 2, 3, random.choice((4, 70))))):
                headers.append((random.choice(("", "trace", "größe")), value_of(random)))
        found.append(Record(offset, timestamp, value_of(random), value_of(random), tuple(headers)))
        offset += random.randint(1, step)
    return found


def log_of(random: Random, count: int = 12) -> bytes:
    """The bytes of a log of some batches: of each codec and type of timestamp, with gaps."""
    offset, found = random.choice((0, 1 << 40)), []
    codecs = random.choice(((Codec.NONE,), tuple(Codec)))
    sizes = random.choice(((1,), (0, 1, 2, 3), (20,), (0, 1, 100)))
    if random.random() < 0.2:
        count, sizes = 200, (0, 1, 2, 5)
    for _ in range(random.randrange(1, count)):
        records = records_of(random, offset, random.choice(sizes))
        last = records[-1].offset if records else offset
        options = BatchOptions(
            base_offset=offset,
            compression=random.choice(codecs) if records else Codec.NONE,
            is_control=random.random() < 0.05,
            log_append_time_ms=1_700_000_000_123 if random.random() < 0.2 else None,
            delete_horizon_ms=1_600_000_000_000 if random.random() < 0.1 else None,
        )
        last += random.choice((0, 0, 4))
        found.append(encode_sparse_batch(records, last, options=options))
        offset = last + 1
    return b"".join(found)


def slow_rows(log: bytes, start_offset: int = 0, end_offset: int = NO_LIMIT) -> list[dict]:
    """The rows of a log, as the decoder of single records finds them."""
    found = []
    for at, header in batches(log):
        if header.is_control:
            continue
        for record in decode_records(memoryview(log)[at : at + header.size_bytes]):
            if start_offset <= record.offset < end_offset:
                found.append(row_of(record, header.timestamp_type == LOG_APPEND_TIME))
    return found


def row_of(record: Record, timestamp_type: int) -> dict:
    """The row of one record, with headers."""
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": TOPIC,
        "partition": PARTITION,
        "offset": record.offset,
        "timestamp": _EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": int(timestamp_type),
        "headers": headers or None,
    }


def fast_rows(
    log: bytes | memoryview, start_offset: int = 0, end_offset: int = NO_LIMIT, **settings: object
) -> pa.Table:
    """All rows of a log, by way of Arrow."""
    rows = Rows(TOPIC, PARTITION, **settings)
    taken, at = [], 0
    while at < len(log):
        found, index = scan(log, at), 0
        if not len(found):
            break
        while index < len(found):
            index = rows.add(found, start_offset, end_offset, first=index)
            if rows.is_full:
                taken.append(rows.take())
        at = found.end
    taken.append(rows.take())
    for part in taken:
        part.validate(full=True)
    return pa.Table.from_batches(taken, rows.schema)
