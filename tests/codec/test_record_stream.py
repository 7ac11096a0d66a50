"""The records of a batch that is read piece by piece are checked as those of a whole one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.codec.batch import HEADER_BYTES
from wirekafka.codec.record import Record, encode_batch
from wirekafka.codec.record_stream import RecordStream
from wirekafka.codec.walk import check_framing, check_record, longest_record
from wirekafka.errors import Error, KafkaError

BODY = encode_batch(
    [
        Record(timestamp=1_000 + index, key=b"k" * index, value=b"v" * index * 30)
        for index in range(9)
    ]
    + [Record(timestamp=1 << 40, value=b"v" * 500, headers=(("a", b"1"), ("b", None)))]
)[HEADER_BYTES:]


def whole(body: bytes, count: int) -> tuple[int, int, int]:
    """What the check of a whole body finds: two deltas of the last record, the longest's size."""
    timestamp_delta, offset_delta, end = check_record(body, check_framing(body, count))
    if end != len(body):
        raise KafkaError(Error.INVALID_RECORD)
    return timestamp_delta, offset_delta, longest_record(body)


def piecewise(body: bytes, count: int, size: int) -> tuple[int, int, int]:
    """The same in pieces of a size."""
    stream = RecordStream(iter([body[at : at + size] for at in range(0, len(body), size)]))
    stream.skip(count - 1)
    deltas = stream.last()
    stream.end()
    return (*deltas, stream.longest)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 20])
def test_pieces_of_any_size_give_what_the_whole_gives(size: int) -> None:
    assert piecewise(BODY, 10, size) == whole(BODY, 10)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(
    at=st.integers(0, len(BODY) - 1),
    byte=st.integers(0, 255),
    cut=st.integers(0, 3),
    count=st.integers(8, 11),
    size=st.integers(1, 40),
)
def test_damaged_records_are_refused_in_pieces_as_in_a_whole(
    at: int, byte: int, cut: int, count: int, size: int
) -> None:
    damaged = BODY[:at] + bytes((byte,)) + BODY[at + 1 : len(BODY) - cut]
    outcomes = []
    for read in (lambda: whole(damaged, count), lambda: piecewise(damaged, count, size)):
        try:
            outcomes.append(read())
        except KafkaError as error:
            assert error.error is Error.INVALID_RECORD
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


def test_empty_pieces_are_passed() -> None:
    stream = RecordStream(iter([b"", BODY[:5], b"", b"", BODY[5:], b""]))
    stream.skip(9)
    assert stream.last() == whole(BODY, 10)[:2]
    stream.end()


@pytest.mark.long
def test_a_record_of_a_million_headers_is_the_largest() -> None:
    header = b"\0\1"
    for count, is_refused in ((1_000_000, False), (1_000_001, True)):
        record = Record(value=b"", headers=(("", None),) * count)
        body = encode_batch([record])[HEADER_BYTES:]
        assert body.endswith(header)
        if is_refused:
            with pytest.raises(KafkaError, match="headers"):
                piecewise(body, 1, 1 << 16)
        else:
            assert piecewise(body, 1, 1 << 16)[:2] == (0, 0)
