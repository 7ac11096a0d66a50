"""Records: encoded and decoded, byte for byte as other clients and Kafka itself write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from wirekafka.codec.batch import BatchHeader, batches, is_intact, read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import (
    BatchOptions,
    Record,
    decode_body,
    decode_records,
    encode_batch,
    encode_record,
    encode_sparse_batch,
)
from wirekafka.codec.walk import check_framing, check_record, first_at_or_after, outlines
from wirekafka.errors import Error, KafkaError

timestamps = st.integers(-1, 2**45)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
records = st.builds(
    Record,
    offset=st.just(-1),
    timestamp=timestamps,
    key=st.none() | st.binary(max_size=80),
    value=st.none() | st.binary(max_size=300),
    headers=headers.map(tuple),
)
record_lists = st.lists(records, min_size=1, max_size=12)
codecs = st.sampled_from(list(Codec))

T0 = 1_700_000_000_000
SENT_TO_KAFKA = [
    Record(0, T0, b"key-0", b"value-0", (("h", b"x"), ("h", None), ("", b""))),
    Record(1, T0 + 5, None, b"v" * 300),
    Record(2, T0 - 70_000, b"", None),
    Record(3, T0 + 1, "ключ".encode(), b""),
    *[Record(i - 2, T0 + i, b"k%d" % i, b"some text some text %d" % i) for i in range(6, 70)],
]
JAVA_BATCHES = dict(
    line.split() for line in Path(__file__).with_name("java_batches.txt").read_text().splitlines()
)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(records=record_lists, codec=codecs, base_offset=st.integers(0, 2**60))
def test_encoded_records_are_decoded_to_equal_records(
    records: list[Record], codec: Codec, base_offset: int
) -> None:
    options = BatchOptions(base_offset=base_offset, compression=codec)
    batch = encode_batch(records, options=options)
    assert is_intact(batch)
    expected = [record._replace(offset=base_offset + delta) for delta, record in enumerate(records)]
    assert decode_records(batch) == expected


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(records=record_lists)
def test_uncompressed_bytes_are_those_of_kafka_python(records: list[Record]) -> None:
    assert encode_batch(records) == _kafka_python_batch(records, Codec.NONE)


@settings(max_examples=50, deadline=None)
@given(records=record_lists, codec=codecs)
def test_kafka_python_reads_ours_and_we_read_its(records: list[Record], codec: Codec) -> None:
    theirs = DefaultRecordBatch(encode_batch(records, options=BatchOptions(compression=codec)))
    assert theirs.validate_crc()
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == [
        (r.timestamp, r.key, r.value, list(r.headers)) for r in records
    ]
    ours = decode_records(_kafka_python_batch(records, codec))
    assert [record._replace(offset=-1) for record in ours] == records


@pytest.mark.parametrize("name", list(JAVA_BATCHES))
def test_batches_that_kafka_itself_compressed_are_read(name: str) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[name])
    assert is_intact(batch)
    header = read_header(batch)
    assert header.compression == (0 if name == "uncompressed" else Codec[name.upper()])
    found = decode_records(batch)
    assert [r._replace(offset=r.offset - header.base_offset) for r in found] == SENT_TO_KAFKA


@pytest.mark.parametrize("name", ["uncompressed", "gzip"])
def test_our_bytes_are_those_of_kafka(name: str) -> None:
    java = bytes.fromhex(JAVA_BATCHES[name])
    codec = Codec.NONE if name == "uncompressed" else Codec.GZIP
    options = BatchOptions(leader_epoch=0, compression=codec, base_offset=read_header(java)[0])
    ours = encode_batch(SENT_TO_KAFKA, options=options)
    # The tenth byte of a gzip stream names the operating system.
    assert len(ours) == len(java)
    differing = {at for at, byte in enumerate(ours) if byte != java[at]}
    assert differing <= ({17, 18, 19, 20, 61 + 9} if codec else set())


def test_sparse_batches_keep_the_offsets_of_removed_records() -> None:
    kept = [Record(12, 5, b"a", b"1"), Record(17, 3, b"b", None)]
    batch = encode_sparse_batch(kept, 20, options=BatchOptions(base_offset=10))
    header = read_header(batch)
    assert (header.base_offset, header.end_offset, header.count) == (10, 21, 2)
    assert decode_records(batch) == kept


def test_an_empty_batch_keeps_its_offsets_and_sequences() -> None:
    options = BatchOptions(base_offset=10, producer_id=1, producer_epoch=0, base_sequence=4)
    batch = encode_sparse_batch([], 12, options=options)
    header = read_header(batch)
    assert (header.count, header.end_offset, header.last_sequence) == (0, 13, 6)
    assert is_intact(batch) and decode_records(batch) == []


def test_record_bodies_that_kafka_refuses_are_invalid_records() -> None:
    for name, body in {
        "size 0": b"\0" + encode_record(Record(key=b"k"), 0, 0),
        "negative size": b"\1",
        "size beyond the batch": b"\xfe\xff\xff\xff\x0f" + encode_record(Record(key=b"k"), 0, 0),
        "varint of seven bytes": b"\xff" * 7,
        "padding in a record": b"\x12\0\0\0\x02k\x02v\0\0",
        "key beyond the record": b"\x0e\0\0\0\x7e\x02vx",
        "negative header count": b"\x0c\0\0\0\1\1\1",
        "more headers than bytes": b"\x0c\0\0\0\1\1\x7e",
        "a header without a name": b"\x10\0\0\0\1\1\x02\1\1",
        "one record of two": encode_record(Record(key=b"k"), 0, 0),
        "bytes left over": encode_record(Record(key=b"k"), 0, 0) * 3,
    }.items():
        header = read_header(encode_batch([Record()] * 2))
        if not name.startswith(("one", "bytes")):
            header = header._replace(count=1)
        with pytest.raises(KafkaError) as raised:
            decode_body(body, header)
        assert raised.value.error is Error.INVALID_RECORD, name


@settings(max_examples=100, deadline=None)
@given(record=records, offset_delta=st.integers(0, 2**31 - 1), delta=st.integers(-(2**40), 2**40))
def test_a_record_is_checked_completely_without_being_built(
    record: Record, offset_delta: int, delta: int
) -> None:
    part = encode_record(record, offset_delta, delta)
    assert check_record(b"x" + part + b"y", 1) == (delta, offset_delta, len(part) + 1)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(record=records, at=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_check_agrees_with_a_parse_on_what_is_malformed(
    record: Record, at: int, byte: int
) -> None:
    part = bytearray(encode_record(record, 0, 0))
    part[at % len(part)] = byte
    header = read_header(encode_batch([Record()]))

    def refused(read: Callable[[], object]) -> bool:
        try:
            read()
        except KafkaError:
            return True
        return False

    def checked() -> None:
        if check_record(bytes(part), 0)[2] != len(part):
            raise KafkaError(Error.INVALID_RECORD)

    assert refused(checked) == refused(lambda: decode_body(bytes(part), header))


def test_a_count_beyond_the_bytes_allocates_nothing() -> None:
    header = read_header(encode_batch([Record()]))._replace(count=2**31 - 1)
    with pytest.raises(KafkaError, match="2147483647 records declared in 7 bytes"):
        decode_body(b"\x0c\0\0\0\1\1\0", header)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=60), count=st.integers(-1, 5))
def test_random_data_for_records_raises_only_invalid_record(body: bytes, count: int) -> None:
    header = read_header(encode_batch([Record()]))._replace(count=count)
    for read in (
        decode_body,
        lambda body, header: list(outlines(body, header)),
        lambda body, header: check_framing(body, count),
    ):
        try:
            read(body, header)
        except KafkaError as error:
            assert error.error is Error.INVALID_RECORD


sizes = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 30)), min_size=1, max_size=6)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(runs=sizes, longer=st.booleans())
def test_framing_is_checked_exactly_for_repeated_records(
    runs: list[tuple[int, int]], longer: bool
) -> None:
    value_bytes = [size for size, times in runs for _ in range(times)]
    if longer:
        value_bytes.append(20_000)
    parts = [encode_record(Record(value=bytes(size)), 0, 0) for size in value_bytes]
    body = memoryview(b"".join(parts))
    count = len(parts)
    assert check_framing(body, count) == len(body) - len(parts[-1])
    for wrong in (body[:-1], bytes(body) + b"\0"):
        with pytest.raises(KafkaError):
            check_framing(wrong, count)
    for wrong_count in (count - 1, count + 1):
        with pytest.raises(KafkaError):
            check_framing(body, wrong_count)


def test_a_run_broken_by_one_length_byte_is_noticed() -> None:
    part = encode_record(Record(value=bytes(100)), 0, 0)
    body = bytearray(part * 50)
    for index in range(50):
        broken = bytearray(body)
        broken[index * len(part)] += 2
        with pytest.raises(KafkaError):
            check_framing(bytes(broken), 50)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(records=record_lists)
def test_outlines_agree_with_the_records(records: list[Record]) -> None:
    header, body = _opened(encode_batch(records))
    assert list(outlines(body, header)) == [
        (delta, record.timestamp, record.key is not None) for delta, record in enumerate(records)
    ]


def test_a_timestamp_is_found_at_the_first_record_not_older() -> None:
    sent = [Record(timestamp=timestamp) for timestamp in (10, 30, 20, 40)]
    header, body = _opened(encode_batch(sent, options=BatchOptions(base_offset=100)))
    assert first_at_or_after(body, header, 20) == (101, 30)
    assert first_at_or_after(body, header, 10) == (100, 10)
    assert first_at_or_after(body, header, 41) is None


def test_control_characters_in_header_names_do_not_break_reading() -> None:
    body = b"\x14\0\0\0\1\1\x02\x04\xff\xfe\1"
    header = read_header(encode_batch([Record()]))
    assert decode_body(body, header)[0].headers == (("\ufffd\ufffd", None),)


def _opened(batch: bytes) -> tuple[BatchHeader, bytes]:
    ((_, header),) = batches(batch)
    return header, batch[61:]


def _kafka_python_batch(records: list[Record], codec: Codec) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=False, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for delta, record in enumerate(records):
        assert builder.append(
            delta, record.timestamp, record.key, record.value, list(record.headers)
        )
    built = bytearray(builder.build())
    built[12:16] = b"\xff\xff\xff\xff"  # It writes 0 for the leader epoch it does not know.
    return bytes(built)
