"""Batches as Arrow: the same rows as by the decoder of single records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tests.repetitions import repetitions
from tests.tables.generated import fast_rows, log_of, slow_rows
from wirekafka.codec.batch import HEADER_BYTES, checksum
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.tables.rows import HEADERS, SCHEMA, Rows, schema
from wirekafka.tables.scan import scan

ROOT = Path(__file__).parents[2]
SEEDS = repetitions("WIREKAFKA_TABLE_SEEDS", usual=100, thorough=5000)


@pytest.mark.long
def test_generated_logs_have_the_rows_of_the_slow_decoder() -> None:
    for seed in range(SEEDS):
        random = Random(seed)
        log = log_of(random)
        settings = {"headers": True, "limit_rows": random.choice((1, 100, 1 << 17))}
        assert fast_rows(log, **settings).to_pylist() == slow_rows(log), seed


@pytest.mark.long
def test_offsets_outside_of_the_range_are_left_out() -> None:
    for seed in range(30):
        random = Random(seed)
        log = log_of(random)
        everything = slow_rows(log)
        offsets = [row["offset"] for row in everything] or [0]
        start, end = sorted((random.choice(offsets), random.choice(offsets) + 1))
        found = fast_rows(log, start, end, headers=True).to_pylist()
        assert found == slow_rows(log, start, end), seed


def test_pruned_columns_have_the_same_values() -> None:
    log = log_of(Random(5))
    whole = fast_rows(log, headers=True)
    for columns in (["offset"], ["value", "key"], ["headers"], ["timestamp", "topic"]):
        found = fast_rows(log, columns=columns)
        assert found == whole.select(columns)
        assert found.schema == schema(columns)


def test_the_schema_is_the_schema_of_sparks_kafka_format() -> None:
    assert [f"{field.name} {field.type}" for field in schema(headers=True)] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int32",
        "offset int64",
        "timestamp timestamp[us, tz=UTC]",
        "timestampType int32",
        "headers list<item: struct<key: string, value: binary>>",
    ]
    assert schema() == SCHEMA
    assert schema(["offset"], headers=True) == pa.schema([SCHEMA.field("offset"), HEADERS])
    with pytest.raises(ValueError, match="no column ofset: the columns are key, value"):
        schema(["ofset"])
    with pytest.raises(ValueError, match="no column is chosen"):
        schema([])
    with pytest.raises(ValueError, match="named twice"):
        schema(["key", "key"])


def test_values_that_look_like_records_do_not_mislead() -> None:
    inner = encode_batch([Record(value=b"v")] * 30)[HEADER_BYTES:]
    records = [Record(value=inner[: 200 + index % 90]) for index in range(900)]
    for log in (encode_batch(records), encode_batch(records) + log_of(Random(1))):
        assert fast_rows(log, headers=True).to_pylist() == slow_rows(log)


def test_values_of_a_megabyte_are_among_small_ones() -> None:
    values = [b"small", bytes(1 << 20), None, b"x" * 9000, b""] * 3
    log = encode_batch([Record(key=value, value=value) for value in values])
    found = fast_rows(log)
    assert found["value"].to_pylist() == found["key"].to_pylist() == values


def test_varints_with_more_bytes_than_they_need_are_read_as_by_the_slow_decoder() -> None:
    record = bytes.fromhex("8e00 00 8000 808000 01 82808000 76 8000")
    record = bytes((len(record[2:]) * 2 | 0x80, 0)) + record[2:]
    batch = bytearray(encode_batch([Record()])[:HEADER_BYTES] + record * 50)
    batch[57:61] = (50).to_bytes(4, "big")
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = checksum(batch).to_bytes(4, "big")
    found = fast_rows(bytes(batch), headers=True)
    assert found.to_pylist() == slow_rows(bytes(batch))
    assert found["value"].to_pylist() == [b"v"] * 50


def test_rows_are_full_at_either_limit_and_go_on_after_they_are_taken() -> None:
    log = b"".join(
        encode_batch(
            [Record(value=bytes(1 << 20)) for _ in range(2)],
            options=BatchOptions(base_offset=2 * number, compression=Codec.ZSTD),
        )
        for number in range(30)
    )
    found = scan(log)
    rows = Rows("t", 0, limit_bytes=8 << 20)
    # Groups of 4 MiB are inflated together: what a small log inflates to is not held at once.
    assert rows.add(found) == 4 and rows.is_full and rows.count == 8
    assert rows.add(found, first=4) == 4
    assert rows.take().num_rows == 8 and not rows.is_full and not rows.size_bytes
    assert rows.add(found, first=28) == len(found) and rows.take().num_rows == 4
    rows = Rows("t", 0, limit_rows=5)
    assert rows.add(found) == 3
    assert rows.take()["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert rows.take().num_rows == 0


def test_a_timestamp_that_microseconds_cannot_hold_is_null() -> None:
    largest = (1 << 63) // 1000
    log = encode_batch([Record(timestamp=time) for time in (largest, -1, largest - 1)])
    found = fast_rows(log)["timestamp"].cast(pa.int64()).to_pylist()
    assert found == [largest * 1000, -1000, (largest - 1) * 1000]
    log = encode_batch([Record(timestamp=time) for time in (largest + 1, 5, (1 << 63) - 1)])
    assert fast_rows(log)["timestamp"].cast(pa.int64()).to_pylist() == [None, 5000, None]


def test_header_names_that_are_no_utf_8_are_replaced() -> None:
    batch = bytearray(encode_batch([Record(headers=(("trace", b"v"),))]))
    at = batch.index(b"trace")
    batch[at : at + 2] = b"\xff\xfe"
    batch[17:21] = checksum(batch).to_bytes(4, "big")
    [names] = fast_rows(bytes(batch), columns=["headers"])["headers"].to_pylist()
    assert names == [{"key": "\ufffd\ufffdace", "value": b"v"}]


def test_columns_that_need_no_bytes_keep_no_buffer() -> None:
    log = bytearray(encode_batch([Record(key=b"k", value=bytes(5000))] * 20))
    kept = Rows("t", 0, columns=["key"])
    kept.add(scan(log))
    assert kept.size_bytes > 20 * 5000
    with pytest.raises(BufferError):
        log.clear()
    assert kept.take()["key"].to_pylist() == [b"k"] * 20
    rows = Rows("t", 0, columns=["offset", "timestamp"])
    rows.add(scan(log))
    assert rows.size_bytes < 20 * 100
    log.clear()
    assert rows.take()["offset"].to_pylist() == list(range(20))


@pytest.mark.long
def test_pandas_is_not_imported() -> None:
    code = (
        "import sys; from random import Random;"
        " from tests.tables.generated import fast_rows, log_of;"
        " fast_rows(log_of(Random(2)), headers=True); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
