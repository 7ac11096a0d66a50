"""Logs of magic 0 and 1, as kafka-python still writes them, and as compaction leaves them."""

from __future__ import annotations

import struct
import zlib
from random import Random

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tests.tables.generated import fast_rows, row_of, value_of
from wirekafka.codec.batch import LOG_APPEND_TIME_BIT
from wirekafka.codec.compression import Codec, compress
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.tables.scan import DamagedBatch, scan

OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def entry_of(offset: int, magic: int, attributes: int, timestamp: int, *fields: bytes | None):
    """One entry of a message set; `fields` are key and value."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in fields:
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapped(
    records: list[Record], magic: int, codec: Codec, *, append_time: int | None = None
) -> bytes:
    """An entry with compressed entries: offsets of magic 1 are relative."""
    base = records[0].offset if magic else 0
    inner = b"".join(
        entry_of(record.offset - base, magic, 0, record.timestamp, record.key, record.value)
        for record in records
    )
    attributes = codec | (0 if append_time is None else LOG_APPEND_TIME_BIT)
    timestamp = max(record.timestamp for record in records)
    if append_time is not None:
        timestamp = append_time
    value = compress(codec, inner)
    return entry_of(records[-1].offset, magic, attributes, timestamp, None, value)


def records_of(random: Random, base_offset: int, magic: int) -> list[Record]:
    """Some records with gaps between their offsets."""
    offset, found = base_offset, []
    for _ in range(random.choice((1, 2, 30))):
        timestamp = random.choice((-1, 0, 1_500_000_000_000)) if magic else -1
        found.append(Record(offset, timestamp, value_of(random), value_of(random)))
        offset += random.choice((1, 1, 5))
    return found


def expected_row(record: Record, magic: int, timestamp_type: int = 0) -> dict:
    return row_of(record, timestamp_type if magic else -1)


@pytest.mark.long
def test_generated_message_sets_have_their_records() -> None:
    for seed in range(60):
        random = Random(seed)
        log, expected, offset = b"", [], random.choice((0, 1 << 40))
        for _ in range(8):
            magic, codec = random.choice((0, 1)), random.choice(OLD_CODECS)
            records = records_of(random, offset, magic)
            offset = records[-1].offset + 1
            if codec:
                append_time = random.choice((None, 1_600_000_000_000)) if magic else None
                log += wrapped(records, magic, codec, append_time=append_time)
                if append_time is not None:
                    records = [each._replace(timestamp=append_time) for each in records]
                expected += [expected_row(each, magic, append_time is not None) for each in records]
                continue
            for each in records:
                log += entry_of(each.offset, magic, 0, each.timestamp, each.key, each.value)
                expected.append(expected_row(each, magic))
        assert fast_rows(log, headers=True).to_pylist() == expected, seed
        middle = expected[len(expected) // 2]["offset"]
        found = fast_rows(log, middle, middle + 1, headers=True).to_pylist()
        assert found == [expected[len(expected) // 2]], seed


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_message_sets_of_kafka_python_have_their_records(magic: int, codec: Codec) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    records = [Record(i, 1_500_000_000_000 + i, b"k%d" % i, b"some text %d" % i) for i in range(9)]
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    # kafka-python leaves it to the broker to give the outer message its offset.
    log = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", log, 0, 8)
    if not magic:
        records = [record._replace(timestamp=-1) for record in records]
    found = fast_rows(bytes(log), headers=True).to_pylist()
    assert found == [expected_row(record, magic) for record in records]


def test_a_log_that_was_upgraded_has_all_its_records() -> None:
    log = (
        entry_of(0, 0, 0, -1, None, b"zero")
        + wrapped([Record(1, 5, b"k", b"one"), Record(2, 6, b"k", b"two")], 1, Codec.GZIP)
        + encode_batch([Record(timestamp=7, value=b"three")], options=BatchOptions(base_offset=3))
    )
    found = scan(log)
    assert found["magic"].tolist() == [0, 1, 2]
    assert found["base_offset"].tolist() == [0, 1, 3]
    assert found["end_offset"].tolist() == [1, 3, 4]
    assert found["count"].tolist() == [1, 2, 1]
    table = fast_rows(log)
    assert table["value"].to_pylist() == [b"zero", b"one", b"two", b"three"]
    assert table["timestampType"].to_pylist() == [-1, 0, 0, 0]


def test_the_wrong_header_checksum_of_old_lz4_frames_is_no_damage() -> None:
    log = bytearray(wrapped([Record(4, -1, b"k", b"v" * 99)], 0, Codec.LZ4))
    frame = log.index(b"\x04\x22\x4d\x18")
    log[frame + 6] ^= 0xFF
    struct.pack_into(">I", log, 12, zlib.crc32(log[16:]))
    assert fast_rows(bytes(log))["value"].to_pylist() == [b"v" * 99]


@pytest.mark.long
def test_damaged_message_sets_are_named() -> None:
    whole = wrapped([Record(1, 5, b"k", b"one"), Record(2, 6, b"k", b"two")], 1, Codec.GZIP)
    plain = entry_of(0, 1, 0, 5, b"k", b"v")
    for bit in range(8 * 12, 8 * len(whole), 3):
        damaged = bytearray(plain + whole)
        damaged[len(plain) + bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedBatch) as raised:
            fast_rows(damaged)
        assert raised.value.position == len(plain)
    for inner in (b"", b"\0" * 30, plain[:-1], entry_of(0, 0, 0, -1, None, b"v")):
        value = compress(Codec.GZIP, inner)
        with pytest.raises(DamagedBatch, match="invalid message structure"):
            scan(entry_of(7, 1, Codec.GZIP, 5, None, value))
