"""Records that contradict their batch, behind a right checksum: named, never guessed."""

from __future__ import annotations

import struct
from random import Random

import pytest

from tests.tables.generated import fast_rows, log_of, records_of, slow_rows
from wirekafka.codec.batch import HEADER_BYTES, read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.crc import crc32c
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import KafkaError
from wirekafka.tables.rows import NO_LIMIT, Rows
from wirekafka.tables.scan import DamagedBatch, scan

GOOD = encode_batch([Record(value=b"%d" % index) for index in range(60)])


def with_right_checksum(batch: bytearray) -> bytes:
    """The batch as its sender would have sent it."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def with_count(count: int) -> bytes:
    batch = bytearray(GOOD)
    struct.pack_into(">i", batch, 57, count)
    return with_right_checksum(batch)


def with_body(body: bytes, count: int = 1) -> bytes:
    batch = bytearray(GOOD[:HEADER_BYTES] + body)
    struct.pack_into(">i", batch, 57, count)
    return with_right_checksum(batch)


def damage_of(log: bytes) -> DamagedBatch:
    with pytest.raises(DamagedBatch) as raised:
        # Damage may have made offsets negative.
        fast_rows(log, -NO_LIMIT, headers=True)
    return raised.value


@pytest.mark.parametrize(
    "batch, reason",
    [
        (with_count(61), "Found invalid record structure"),
        (with_count(59), "records still remaining"),
        (with_count(-1), "Found invalid record count -1"),
        (with_count((1 << 31) - 1), "2147483647 records in one batch"),
        (with_count(1 << 23), "Found 8388608 records declared in"),
        (with_count(0), "records still remaining"),
        (with_body(b"\xff" * 20), "varint is longer than 5 bytes"),
        (with_body(b"\x0c\0" + b"\x80" * 10), "Found invalid record structure"),
        (with_body(b"\x10\0\0\0\x01\xfe\xff\xff\xff\x0f", 1), "Found invalid record structure"),
        (with_body(b"\x0e\0\0\0\x01\x7eab\0"), "a key or value longer than its record"),
        (with_body(b"\x0e\0\0\0\x01\x00ab"), "Found invalid record structure"),
        (with_body(b"\x10\0\0\0\x01\x01\x02\x01\x01"), "a header without a name"),
        (with_body(b"\x0f" + bytes(12)), "Found invalid record structure"),
        (with_body(b"\x02\0" * 8, 2), "a record of 1 bytes"),
    ],
)
def test_malformed_records_are_named_with_their_batch(batch: bytes, reason: str) -> None:
    error = damage_of(batch)
    assert reason in error.reason and error.position == 0 and error.resume_at == len(batch)
    log = GOOD + GOOD + batch + GOOD
    assert damage_of(log).position == 2 * len(GOOD)


def test_the_batches_before_and_after_a_malformed_one_can_be_read() -> None:
    for codec in (Codec.NONE, Codec.ZSTD):
        good = encode_batch(
            [Record(value=b"%d" % index) for index in range(60)],
            options=BatchOptions(compression=codec),
        )
        log = good + good + with_count(5) + good
        found, rows = scan(log), Rows("t", 0)
        assert rows.add(found) == 2
        with pytest.raises(DamagedBatch) as raised:
            rows.add(found, first=2)
        following = found.index_at(raised.value.resume_at)
        assert rows.add(found, first=following) == 4
        assert rows.count == rows.take().num_rows == 180


@pytest.mark.long
def test_a_decompression_bomb_is_refused_before_it_is_inflated() -> None:
    batch = encode_batch(
        [Record(value=bytes(43 << 20)) for _ in range(3)],
        options=BatchOptions(compression=Codec.ZSTD),
    )
    assert "inflate to more than" in damage_of(batch).reason


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_broken_compression_is_damage(codec: Codec) -> None:
    batch = bytearray(
        encode_batch([Record(value=b"v" * 500)] * 9, options=BatchOptions(compression=codec))
    )
    del batch[-9:]
    # A zstd frame that is cut off inflates up to there.
    reason = "9 records declared in" if codec == Codec.ZSTD else "Failed to decompress"
    assert reason in damage_of(with_right_checksum(batch)).reason


@pytest.mark.long
def test_random_bytes_in_records_are_damage_just_where_the_slow_decoder_says_so() -> None:
    accepted = 0
    for seed in range(1500):
        random = Random(seed)
        records = records_of(random, 0, random.choice((1, 2, 60)))[:60]
        batch = bytearray(encode_batch(records))
        for _ in range(random.choice((1, 1, 2))):
            # Where the first record has its sizes, or anywhere.
            most = min(len(batch), HEADER_BYTES + random.choice((12, 1 << 30)))
            batch[random.randrange(HEADER_BYTES, most)] = random.randrange(256)
        log = with_right_checksum(batch)
        try:
            decode_records(log, read_header(log))
        except KafkaError:
            assert damage_of(log).position == 0, seed
        else:
            accepted += 1
            columns = ["key", "value", "offset", "headers"]
            found = fast_rows(log, -NO_LIMIT, columns=columns)
            names = found.schema.names
            assert found.to_pylist() == [
                {name: row[name] for name in names} for row in slow_rows(log, -NO_LIMIT)
            ], seed
    assert 100 < accepted < 1400


@pytest.mark.long
def test_cut_and_flipped_logs_raise_damage_or_end_early() -> None:
    for seed in range(100):
        random = Random(seed)
        log = bytearray(log_of(random))
        expected = slow_rows(bytes(log))
        if random.random() < 0.5:
            del log[random.randrange(len(log)) :]
        if log:
            log[random.randrange(len(log))] ^= 1 << random.randrange(8)
        try:
            found = fast_rows(log, columns=["value"])["value"].to_pylist()
        except DamagedBatch as error:
            assert 0 <= error.position < len(log)
        else:
            assert found == [row["value"] for row in expected][: len(found)]
