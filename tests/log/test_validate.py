"""Batches that a leader refuses or rewrites; the results are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.codec.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    checksum,
    is_intact,
    read_header,
    with_prefix,
)
from wirekafka.codec.compression import Codec, compress
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch, encode_record
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error
from wirekafka.log.append import Append, Checked, Origin, RecordsRefused
from wirekafka.log.validate import validate
from wirekafka.protocol.records.control import Marker, encode_marker

NOW = 1_700_000_000_000
HOUR = 3_600_000
PLAIN = TopicConfig()
COMPACTED = PLAIN.changed(cleanup_policy=("compact",))
APPEND_TIME = PLAIN.changed(message_timestamp_type="LogAppendTime")
NARROW = PLAIN.changed(
    message_timestamp_before_max_ms=60_000, message_timestamp_after_max_ms=60_000
)
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def batch_of(count: int, **options: Any) -> bytes:
    sent = [Record(timestamp=NOW + index, key=b"k", value=b"v%d" % index) for index in range(count)]
    return encode_batch(sent, options=BatchOptions(**options))


def batch_at(*timestamps: int, key: bytes | None = b"k", **options: Any) -> bytes:
    sent = [Record(timestamp=timestamp, key=key, value=b"v") for timestamp in timestamps]
    return encode_batch(sent, options=BatchOptions(**options))


GOOD = batch_of(3)


def forged(batch: bytes, **fields: Any) -> bytes:
    """The batch with other header fields and, unless given, the checksum that fits them."""
    out = bytearray(HEADER.pack(*read_header(batch)._replace(**fields)) + batch[HEADER_BYTES:])
    if "crc" not in fields:
        out[17:21] = checksum(out).to_bytes(4, "big")
    return bytes(out)


def holding(bodies: Sequence[bytes], codec: Codec = Codec.NONE, **fields: Any) -> bytes:
    """A batch around record bytes of any kind."""
    body = compress(codec, b"".join(bodies))
    count = len(bodies)
    return forged(
        GOOD[:HEADER_BYTES] + body,
        **{
            "length": HEADER_BYTES - 12 + len(body), "attributes": int(codec), "count": count,
            "last_offset_delta": count - 1, "max_timestamp": NOW + count - 1, **fields,
        },
    )  # fmt: skip


def body_of(offset_delta: int, timestamp_delta: int = 0) -> bytes:
    return encode_record(Record(key=b"k", value=b"v"), offset_delta, timestamp_delta)


def checked(batch: bytes, config: TopicConfig = PLAIN) -> Checked:
    return validate(memoryview(batch), Append(leader_epoch=0, now_ms=NOW), config, "topic-0")


def stored(batch: bytes, config: TopicConfig = PLAIN) -> bytes:
    """The batch as it goes to the log, at offset 0."""
    found = checked(batch, config)
    rest = b"".join(found.rest)
    placed = bytes(with_prefix(bytes(16) + rest, 0, 0)[0]) + rest
    assert is_intact(placed)
    assert read_header(placed)._replace(leader_epoch=-1) == found.header._replace(leader_epoch=-1)
    return placed


def refusal(batch: bytes, config: TopicConfig = PLAIN) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as raised:
        checked(batch, config)
    return raised.value


ACCEPTED = {
    "a good batch": GOOD,
    "bytes behind the batch that are no batch": GOOD + b"xxxxx",
    "a partial batch behind the batch": GOOD + GOOD[:50],
    "a leader epoch of its own": forged(GOOD, leader_epoch=77),
    "unused attribute bits": forged(GOOD, attributes=0x4080),
    "the delete horizon bit": forged(GOOD, attributes=0x40),
    "a sequence without a producer": forged(GOOD, base_sequence=5),
    "no timestamps": batch_at(-1, -1),
    "timestamps of long ago": batch_at(5),
    "unsorted timestamps": batch_at(NOW, NOW + 9, NOW + 5),
    "offset deltas that repeat": holding([body_of(0), body_of(0, 1)]),
    "offset deltas that skip": holding([body_of(0), body_of(5, 1)]),
    "header names that are no UTF-8": holding([b"\x14\0\0\0\1\1\x02\x04\xff\xfe\1"]),
    **{f"{codec.name} records": batch_of(30, compression=codec) for codec in COMPRESSED},
}


@pytest.mark.parametrize("batch", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_batches_are_unchanged(batch: bytes) -> None:
    whole = batch[: read_header(batch).size_bytes]
    assert stored(batch)[16:] == whole[16:]
    assert checked(batch).log_append_time_ms == -1


def with_magic(magic: int) -> bytes:
    return GOOD[:16] + bytes((magic,)) + GOOD[17:]


REFUSED = {
    "nothing": (b"", Error.INVALID_RECORD),
    "ten bytes": (GOOD[:10], Error.INVALID_RECORD),
    "half a header": (GOOD[:40], Error.INVALID_RECORD),
    "a torn batch": (GOOD[:70], Error.INVALID_RECORD),
    "two batches": (GOOD + GOOD, Error.INVALID_RECORD),
    "zeros behind the batch": (GOOD + bytes(20), Error.CORRUPT_MESSAGE),
    "garbage behind the batch": (GOOD + b"\x7f" * 30, Error.CORRUPT_MESSAGE),
    "magic 0": (with_magic(0), Error.INVALID_RECORD),
    "magic 1": (with_magic(1), Error.INVALID_RECORD),
    "magic 3": (with_magic(3), Error.CORRUPT_MESSAGE),
    "magic -1": (with_magic(255), Error.CORRUPT_MESSAGE),
    "a flipped bit": (GOOD[:-1] + bytes((GOOD[-1] ^ 1,)), Error.CORRUPT_MESSAGE),
    "a checksum of 0": (forged(GOOD, crc=0), Error.CORRUPT_MESSAGE),
    **{
        f"a length of {length}": (forged(GOOD, length=length), Error.CORRUPT_MESSAGE)
        for length in (-(2**31), -1, 0, 13, 14, 48, 49, 60)
    },
    "a length beyond the bytes": (forged(GOOD, length=1_000_000), Error.INVALID_RECORD),
    "a base offset of 5": (forged(GOOD, base_offset=5), Error.INVALID_RECORD),
    "a base offset of -1": (forged(GOOD, base_offset=-1), Error.INVALID_RECORD),
    "a base offset and a bad checksum": (forged(GOOD, base_offset=5, crc=1), Error.INVALID_RECORD),
    "an offset delta above the count": (forged(GOOD, last_offset_delta=5), Error.INVALID_RECORD),
    "an offset delta of -1": (forged(GOOD, last_offset_delta=-1), Error.INVALID_RECORD),
    "the largest offset delta": (forged(GOOD, last_offset_delta=2**31 - 1), Error.INVALID_RECORD),
    "a count above the delta": (forged(GOOD, count=5), Error.INVALID_RECORD),
    "a count of 0": (forged(GOOD, count=0), Error.INVALID_RECORD),
    "a count of -1": (forged(GOOD, count=-1), Error.INVALID_RECORD),
    "no records": (
        forged(GOOD[:61], length=49, count=0, last_offset_delta=-1),
        Error.INVALID_RECORD,
    ),
    "more records counted": (forged(GOOD, count=5, last_offset_delta=4), Error.INVALID_RECORD),
    "fewer records counted": (forged(GOOD, count=2, last_offset_delta=1), Error.INVALID_RECORD),
    "a control batch": (forged(GOOD, attributes=0x20), Error.INVALID_RECORD),
    "a producer without a sequence": (
        forged(GOOD, producer_id=9, producer_epoch=0),
        Error.INVALID_RECORD,
    ),
    "a negative sequence": (
        forged(GOOD, producer_id=9, producer_epoch=0, base_sequence=-5),
        Error.INVALID_RECORD,
    ),
    "a varint of seven bytes": (holding([b"\xff" * 7]), Error.INVALID_RECORD),
    "padding in a record": (holding([b"\x12\0\0\0\x02k\x02v\0\0"]), Error.INVALID_RECORD),
    "a key beyond its record": (holding([b"\x0e\0\0\0\x7e\x02vx"]), Error.INVALID_RECORD),
    "a key of length -5": (holding([b"\x0c\0\0\0\x09\x02v\0"]), Error.INVALID_RECORD),
    "a negative header count": (holding([b"\x0e\0\0\0\1\1\1\0"]), Error.INVALID_RECORD),
    "more headers than bytes": (holding([b"\x0e\0\0\0\1\1\x7e\0"]), Error.INVALID_RECORD),
    "a header without a name": (holding([b"\x10\0\0\0\1\1\x02\1\1"]), Error.INVALID_RECORD),
    **{
        f"{codec.name} offset deltas that {how}": (
            holding(bodies, codec),
            Error.UNKNOWN_SERVER_ERROR,
        )
        for codec in COMPRESSED
        for how, bodies in {
            "repeat": [body_of(0), body_of(0, 1)],
            "skip": [body_of(0), body_of(5, 1)],
        }.items()
    },
    "a record of no bytes": (holding([b"\0"]), Error.INVALID_RECORD),
    "a size that differs in its sign alone": (
        holding([bytes((body_of(0)[0] + 1,)) + body_of(0)[1:]]),
        Error.INVALID_RECORD,
    ),
    "a record of negative size": (holding([b"\1"]), Error.INVALID_RECORD),
    "a record beyond the batch": (holding([b"\xfe\xff\xff\xff\x0f"]), Error.INVALID_RECORD),
    **{
        f"compression {codec}": (forged(GOOD, attributes=codec), Error.UNKNOWN_SERVER_ERROR)
        for codec in (5, 6, 7)
    },
    **{
        f"plain records called {codec.name}": (
            forged(GOOD, attributes=codec),
            Error.UNKNOWN_SERVER_ERROR,
        )
        for codec in COMPRESSED
    },
    **{
        f"one {codec.name} record too many": (
            forged(batch_of(3, compression=codec), count=4, last_offset_delta=3),
            Error.INVALID_RECORD,
        )
        for codec in COMPRESSED
    },
    **{
        f"one {codec.name} record too few": (
            forged(batch_of(3, compression=codec), count=2, last_offset_delta=1),
            Error.INVALID_RECORD,
        )
        for codec in COMPRESSED
    },
}


@pytest.mark.parametrize(("batch", "error"), REFUSED.values(), ids=REFUSED)
def test_refused_as_kafka_refuses_it(batch: bytes, error: Error) -> None:
    refused = refusal(batch)
    assert refused.error is error
    # Kafka has a message only for errors of single records, and for bad framing.
    assert refused.message in (None, refused.detail)
    assert not refused.record_errors and refused.detail


_COMPRESSED_CASES = {
    name: case for name, case in REFUSED.items() if len(case[0]) >= HEADER_BYTES and case[0][22] & 7
}


@pytest.mark.parametrize(("batch", "error"), _COMPRESSED_CASES.values(), ids=_COMPRESSED_CASES)
def test_a_large_batch_is_refused_as_a_small_one(
    batch: bytes, error: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirekafka.log.validate._INLINE_BYTES", 0)
    assert refusal(batch).error is error


@pytest.mark.long
@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_a_large_batch_is_checked_without_holding_its_records(codec: Codec) -> None:
    records = [Record(timestamp=NOW, value=bytes(100)) for _ in range(50_000)]
    batch = encode_batch(
        [*records, Record(timestamp=NOW, value=bytes(20 << 20))],
        options=BatchOptions(compression=codec),
    )
    config = PLAIN.changed(max_message_bytes=10 << 20)
    tracemalloc.start()
    try:
        assert checked(batch, config).header.count == 50_001
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    "options", [{"cleanup_policy": ("compact",)}, {"compression_type": "zstd"}]
)
def test_what_is_held_of_a_batch_that_is_converted_is_bounded(
    codec: Codec, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = encode_batch(
        [Record(timestamp=NOW, key=b"k", value=bytes(2 << 20))],
        options=BatchOptions(compression=codec),
    )
    if codec is Codec.ZSTD and "compression_type" in options:
        pytest.skip("stored as it is sent")
    config = PLAIN.changed(**options)
    assert checked(batch, config).header.count == 1
    monkeypatch.setattr("wirekafka.log.conversion.MOST_HELD_BYTES", 1 << 20)
    assert refusal(batch, config).error is Error.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)
def test_a_compression_bomb_is_refused(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    big = encode_batch([Record(timestamp=NOW, value=bytes(3 << 20))])
    bomb = holding([big[HEADER_BYTES:]], codec)
    monkeypatch.setattr("wirekafka.log.validate.MOST_INFLATED_BYTES", 1 << 20)
    assert refusal(bomb).error is Error.INVALID_RECORD


def test_exactly_one_v2_batch_per_partition() -> None:
    assert "exactly one" in refusal(GOOD + GOOD).detail
    assert "at least one" in refusal(b"").detail


def test_magic_0_and_1_are_refused_since_nothing_is_down_converted() -> None:
    assert "magic version 2" in refusal(with_magic(1)).detail


# max.message.bytes


def test_max_message_bytes_counts_the_whole_batch_as_sent() -> None:
    exact = PLAIN.changed(max_message_bytes=len(GOOD))
    assert checked(GOOD, exact)
    assert refusal(GOOD, exact.changed(max_message_bytes=len(GOOD) - 1)).error is (
        Error.MESSAGE_TOO_LARGE
    )


def test_the_size_of_a_batch_is_checked_before_its_checksum() -> None:
    small = PLAIN.changed(max_message_bytes=80)
    assert refusal(forged(GOOD, crc=1), small).error is Error.MESSAGE_TOO_LARGE
    assert refusal(forged(GOOD, base_offset=5), small).error is Error.INVALID_RECORD


def test_a_batch_that_grows_by_recompression_is_measured_again() -> None:
    packed = batch_at(*[NOW] * 100, compression=Codec.GZIP)
    config = PLAIN.changed(compression_type="uncompressed", max_message_bytes=len(packed))
    assert refusal(packed, config).error is Error.MESSAGE_TOO_LARGE


def test_a_batch_too_large_as_sent_is_refused_though_it_would_shrink() -> None:
    loose = batch_at(*[NOW] * 100)
    config = PLAIN.changed(compression_type="gzip", max_message_bytes=len(loose) - 1)
    assert refusal(loose, config).error is Error.MESSAGE_TOO_LARGE


# Timestamps


def test_a_timestamp_an_hour_ahead_is_invalid_and_its_record_is_named() -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        late = NOW + 2 * HOUR
        refused = refusal(batch_at(NOW, late, late + 1, compression=codec))
        assert refused.error is Error.INVALID_TIMESTAMP
        assert refused.message == "One or more records have been rejected due to invalid timestamp"
        bounds = f"[{NOW - (2**63 - 1)}, {NOW + HOUR}]"
        assert refused.record_errors == [
            (
                index,
                f"Timestamp {timestamp} of message with offset {index} is out of range."
                f" The timestamp should be within {bounds}",
            )
            for index, timestamp in ((1, late), (2, late + 1))
        ]


def test_a_timestamp_before_the_lower_bound_is_invalid() -> None:
    refused = refusal(batch_at(NOW, NOW - 60_001, NOW - 60_000), NARROW)
    assert refused.error is Error.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]


def test_no_timestamp_is_never_out_of_bounds() -> None:
    assert checked(batch_at(-1, -1), NARROW)
    assert refusal(batch_at(-5), NARROW).error is Error.INVALID_TIMESTAMP


def test_a_header_that_only_claims_a_late_maximum_is_corrected() -> None:
    claimed = forged(batch_at(NOW), max_timestamp=NOW + 2 * HOUR)
    assert read_header(stored(claimed, NARROW)).max_timestamp == NOW


def test_a_wrong_maximum_timestamp_is_corrected() -> None:
    for maximum in (-1, NOW - 9, NOW, NOW + 1):
        careless = forged(GOOD, max_timestamp=maximum)
        assert read_header(stored(careless)).max_timestamp == NOW + 2
    single = batch_at(NOW)
    for maximum in (-1, NOW - 9, NOW + 1):
        assert stored(forged(single, max_timestamp=maximum)) == stored(single)


def test_a_maximum_timestamp_below_minus_1_becomes_minus_1() -> None:
    for timestamps in ((-5,), (-5, -7)):
        assert read_header(stored(batch_at(*timestamps))).max_timestamp == -1


def test_log_append_time_stamps_without_touching_the_records() -> None:
    for codec in Codec:
        sent = batch_of(30, compression=codec)
        found = checked(sent, APPEND_TIME)
        assert found.log_append_time_ms == NOW
        placed = stored(sent, APPEND_TIME)
        header = read_header(placed)
        assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, NOW)
        assert header.base_timestamp == read_header(sent).base_timestamp
        assert placed[HEADER_BYTES:] == sent[HEADER_BYTES:]
        assert {record.timestamp for record in decode_records(placed)} == {NOW}


def test_log_append_time_has_no_bounds() -> None:
    config = NARROW.changed(message_timestamp_type="LogAppendTime")
    assert checked(batch_at(5, NOW * 3), config).log_append_time_ms == NOW


def test_a_client_may_not_claim_log_append_time_for_such_a_topic() -> None:
    refused = refusal(forged(GOOD, attributes=8), APPEND_TIME)
    assert refused.error is Error.INVALID_TIMESTAMP
    assert refused.record_errors[0] == (
        0,
        f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW + 2}, key=1"
        " bytes, value=2 bytes). Producer should not set timestamp type to LogAppendTime.",
    )


def test_a_compressed_record_that_claims_log_append_time_is_named_as_kafka_names_it() -> None:
    packed = forged(batch_of(1, compression=Codec.GZIP), attributes=8 | Codec.GZIP)
    for codec, kind in (
        ("producer", " PartialDefaultRecord("),
        ("uncompressed", " DefaultRecord("),
    ):
        config = APPEND_TIME.changed(compression_type=codec)
        assert kind in refusal(packed, config).record_errors[0][1]


def test_on_a_create_time_topic_the_log_append_time_bit_is_cleared() -> None:
    header = read_header(stored(forged(GOOD, attributes=8, max_timestamp=NOW + 7)))
    assert (header.timestamp_type, header.max_timestamp) == (0, NOW + 7)


# Compacted topics


def test_a_keyless_record_on_a_compacted_topic_is_an_invalid_record_with_record_errors() -> None:
    sent = [Record(timestamp=NOW, key=key) for key in (b"a", None, b"", None)]
    for codec in (Codec.NONE, Codec.ZSTD):
        refused = refusal(encode_batch(sent, options=BatchOptions(compression=codec)), COMPACTED)
        text = "Compacted topic cannot accept message without key in topic partition topic-0"
        assert refused.error is Error.INVALID_RECORD
        assert refused.record_errors == [(1, text), (3, text)]
        assert refused.message == (
            "One or more records have been rejected due to 2 record errors in total, and only"
            " showing the first three errors at most: [RecordError(batchIndex=1,"
            f" message='{text}'), RecordError(batchIndex=3, message='{text}')]"
        )


def test_only_three_record_errors_are_returned() -> None:
    refused = refusal(batch_at(*[NOW] * 5, key=None), COMPACTED)
    assert len(refused.record_errors) == 5
    assert refused.message is not None and refused.message.count("RecordError(") == 3


def test_a_bad_timestamp_is_reported_before_a_missing_key() -> None:
    late = NOW + 2 * HOUR
    sent = [
        Record(timestamp=timestamp, key=key)
        for key, timestamp in ((b"a", late), (None, NOW), (None, late))
    ]
    refused = refusal(encode_batch(sent), COMPACTED)
    assert refused.error is Error.INVALID_TIMESTAMP
    assert ["Timestamp" in text for _, text in refused.record_errors] == [True, False, False]


def test_keyed_records_pass_a_compacted_topic_unchanged() -> None:
    for codec in Codec:
        sent = batch_of(30, compression=codec)
        assert stored(sent, COMPACTED)[16:] == sent[16:]


def test_keys_are_required_if_compact_is_one_of_the_cleanup_policies() -> None:
    both = PLAIN.changed(cleanup_policy=("compact", "delete"))
    assert refusal(batch_at(NOW, key=None), both).error is Error.INVALID_RECORD
    assert checked(batch_at(NOW, key=None), PLAIN.changed(cleanup_policy=("delete",)))


# compression.type


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent_as", list(Codec), ids=lambda codec: codec.name)
def test_the_topics_compression_overrides_the_producers(name: str, sent_as: Codec) -> None:
    wanted = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    sent = batch_of(
        30, compression=sent_as, producer_id=77, producer_epoch=3, base_sequence=4,
        is_transactional=True,
    )  # fmt: skip
    placed = stored(sent, PLAIN.changed(compression_type=name))
    header = read_header(placed)
    assert header.compression == wanted
    assert header[6:] == read_header(sent)[6:] and header.is_transactional
    assert decode_records(placed) == decode_records(sent)
    if wanted == sent_as:
        assert placed[16:] == sent[16:]


def test_producer_compression_never_inflates_for_writing() -> None:
    sent = batch_of(30, compression=Codec.LZ4)
    (rest,) = checked(sent).rest
    assert isinstance(rest, memoryview) and rest == sent[16:]


def test_recompression_under_log_append_time_keeps_deltas_and_stamps_the_maximum() -> None:
    config = APPEND_TIME.changed(compression_type="gzip")
    found = checked(GOOD, config)
    assert found.log_append_time_ms == NOW
    header = read_header(stored(GOOD, config))
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (9, NOW, NOW)


def test_levels_are_those_of_the_topic() -> None:
    sent = encode_batch([Record(timestamp=NOW, value=b"%d" % (n * n)) for n in range(2_000)])
    sizes = [
        len(stored(sent, PLAIN.changed(compression_type="gzip", compression_gzip_level=level)))
        for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


def test_offset_deltas_are_made_consecutive_by_recompression() -> None:
    sent = holding([body_of(0), body_of(5, 1)])
    placed = stored(sent, PLAIN.changed(compression_type="gzip"))
    assert [record.offset for record in decode_records(placed)] == [0, 1]


# Coordinators of this broker


def test_markers_of_a_coordinator_are_appended_as_they_are() -> None:
    append = Append(leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    marker = encode_marker(9, 0, Marker(True, 3, NOW))
    config = COMPACTED.changed(compression_type="gzip", max_message_bytes=10)
    found = validate(marker, append, config, "topic-0")
    assert found.header.is_control and b"".join(found.rest) == marker[16:]


def test_records_of_a_coordinator_obey_max_message_bytes() -> None:
    append = Append(leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    with pytest.raises(RecordsRefused) as raised:
        validate(GOOD, append, PLAIN.changed(max_message_bytes=80), "topic-0")
    assert raised.value.error is Error.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("change", [bytes.upper, lambda b: b[::-1], lambda b: b + b[:30]])
def test_validation_never_changes_the_bytes_it_was_given(change: Callable[[bytes], bytes]) -> None:
    source = bytearray(change(GOOD))
    before = bytes(source)
    for config in (PLAIN, COMPACTED, APPEND_TIME, NARROW):
        with suppress(RecordsRefused):
            validate(source, Append(leader_epoch=0, now_ms=NOW), config, "topic-0")
    assert source == before


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(
    batch=st.sampled_from([GOOD, *(batch_of(3, compression=codec) for codec in COMPRESSED)]),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    mends=st.booleans(),
    config=st.sampled_from([
        PLAIN, COMPACTED, APPEND_TIME, NARROW, PLAIN.changed(compression_type="gzip"),
    ]),
)  # fmt: skip
def test_random_bytes_are_accepted_or_refused_without_other_errors(
    batch: bytes, changes: list[tuple[int, int]], mends: bool, config: TopicConfig
) -> None:
    broken = bytearray(batch)
    for at, byte in changes:
        broken[at % len(broken)] = byte
    if mends:
        broken[17:21] = checksum(broken).to_bytes(4, "big")
    with suppress(RecordsRefused):
        checked(bytes(broken), config)


@settings(max_examples=200, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(61, 80), st.integers(0, 255)), max_size=3))
def test_a_single_record_that_is_accepted_can_be_read(changes: list[tuple[int, int]]) -> None:
    broken = bytearray(batch_of(1))
    for at, byte in changes:
        broken[min(at, len(broken) - 1)] = byte
    broken[17:21] = checksum(broken).to_bytes(4, "big")
    with suppress(RecordsRefused):
        assert len(decode_records(stored(bytes(broken)))) == 1
