"""The batch header: decoding, checks, and the fields that a broker may rewrite."""

from __future__ import annotations

import pytest

from wirekafka.codec.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    batches,
    checksum,
    is_intact,
    read_header,
    with_prefix,
    with_producer,
    with_timestamp,
)
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.errors import Error, KafkaError

RECORDS = [Record(timestamp=1_000 + delta, key=b"k", value=b"v") for delta in range(3)]
BATCH = encode_batch(RECORDS, options=BatchOptions(base_offset=40, leader_epoch=7))


def test_header_is_61_bytes_with_the_encoded_fields() -> None:
    assert HEADER_BYTES == HEADER.size == 61
    options = BatchOptions(
        base_offset=40, leader_epoch=7, producer_id=9, producer_epoch=2, base_sequence=5,
        is_transactional=True,
    )  # fmt: skip
    header = read_header(encode_batch(RECORDS, options=options))
    assert header == BatchHeader(
        base_offset=40, length=header.length, leader_epoch=7, magic=2, crc=header.crc,
        attributes=0x10, last_offset_delta=2, base_timestamp=1_000, max_timestamp=1_002,
        producer_id=9, producer_epoch=2, base_sequence=5, count=3,
    )  # fmt: skip
    assert (header.end_offset, header.last_sequence) == (43, 7)
    assert header.is_transactional and not header.is_control and header.has_producer_id


def test_sequences_wrap_after_the_largest_int() -> None:
    header = read_header(BATCH)._replace(base_sequence=2**31 - 2)
    assert header.last_sequence == 0
    assert header._replace(base_sequence=-1).last_sequence == -1


def test_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = encode_batch(RECORDS, options=BatchOptions(delete_horizon_ms=77))
    assert read_header(batch).delete_horizon == 77
    assert read_header(BATCH).delete_horizon is None
    assert [record.timestamp for record in decode_records(batch)] == [1_000, 1_001, 1_002]


def test_batches_of_a_buffer_are_found_one_after_the_other() -> None:
    found = list(batches(BATCH * 3))
    assert [position for position, _ in found] == [0, len(BATCH), 2 * len(BATCH)]
    assert all(header == read_header(BATCH) for _, header in found)


@pytest.mark.parametrize("cut", range(len(BATCH)))
def test_a_partial_batch_at_the_end_is_left_out(cut: int) -> None:
    assert len(list(batches(BATCH + BATCH[:cut]))) == 1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
def test_a_length_that_holds_no_batch_is_corrupt(length: int) -> None:
    broken = bytearray(BATCH)
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(KafkaError) as raised:
        list(batches(broken))
    assert raised.value.error is Error.CORRUPT_MESSAGE


def test_a_magic_other_than_2_is_corrupt() -> None:
    broken = bytearray(BATCH)
    broken[16] = 255
    with pytest.raises(KafkaError, match="Invalid magic found in record: -1"):
        list(batches(broken))


def test_every_flipped_bit_from_the_attributes_on_breaks_the_checksum() -> None:
    assert is_intact(BATCH)
    for at in range(21, len(BATCH)):
        broken = bytearray(BATCH)
        broken[at] ^= 1
        assert not is_intact(broken)


def test_base_offset_and_leader_epoch_are_not_under_the_checksum() -> None:
    placed = b"".join(with_prefix(BATCH, 123_456, 99))
    header = read_header(placed)
    assert (header.base_offset, header.leader_epoch) == (123_456, 99)
    assert is_intact(placed) and placed[16:] == BATCH[16:]


def test_placing_a_batch_copies_none_of_it() -> None:
    source = bytearray(BATCH)
    _, rest = with_prefix(source, 1, 1)
    assert isinstance(rest, memoryview) and rest.obj is source


def test_log_append_time_sets_the_bit_and_the_maximum_and_recomputes_the_checksum() -> None:
    stamped = b"".join(with_timestamp(BATCH, LOG_APPEND_TIME, 5_555))
    header = read_header(stamped)
    assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, 5_555)
    assert header.crc == checksum(stamped) and is_intact(stamped)
    assert stamped[HEADER_BYTES:] == BATCH[HEADER_BYTES:]
    assert [record.timestamp for record in decode_records(stamped)] == [5_555] * 3


def test_a_finished_batch_gets_its_producer_and_checksum() -> None:
    records = [Record(value=b"a"), Record(value=b"b")]
    finished = encode_batch(records, options=BatchOptions(is_transactional=True))
    wanted = BatchOptions(
        is_transactional=True, producer_id=1 << 40, producer_epoch=32_766, base_sequence=7
    )
    for batch in (finished, memoryview(bytearray(finished))):
        changed = b"".join(with_producer(batch, 1 << 40, 32_766, 7))
        assert changed == encode_batch(records, options=wanted)
