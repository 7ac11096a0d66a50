"""Malformed bytes raise MalformedMessage, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codec.messages import build, message_versions
from wirekafka.codec.message import MalformedMessage, Message
from wirekafka.codec.varint import encode_uvarint
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest

_CASES = list(message_versions())
_HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def _filled(cls: type[Any]) -> Any:
    """An instance with something in every field, so that every kind of field gets cut."""
    return build(cls, {f.name: _some(f) for f in cls.fields})


def _some(field: Any) -> Any:
    if field.part is not None:
        one: Any = {f.name: _some(f) for f in field.part.fields}
    else:
        one = {
            "?": True,
            "string": "four",
            "bytes": b"four",
            "records": b"four",
            "d": 0.5,
            "16s": bytes(range(16)),
        }.get(field.kind, 4)
    return [one] if field.is_array else one


@pytest.mark.long
@pytest.mark.parametrize(
    ("cls", "version"), _CASES, ids=[f"{cls.__name__}-{version}" for cls, version in _CASES]
)
def test_a_message_cut_at_any_byte_is_refused(cls: type[Message], version: int) -> None:
    whole = _filled(cls).encode(version)
    assert cls.decode(whole, version).encode(version) == whole
    decode = cls.decoder(version)
    for size in range(len(whole)):
        with pytest.raises(MalformedMessage):
            cls.decode(whole[:size], version)
        # The same if the bytes after the end can be read.
        with pytest.raises(MalformedMessage):
            decode(memoryview(whole), 0, size)


@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_or_refused(data: bytes) -> None:
    for cls, version in ((ProduceRequest, 9), (FetchRequest, 17), (MetadataRequest, 1)):
        try:
            cls.decode(data, version)
        except MalformedMessage as error:
            assert str(error).startswith(f"{cls.__name__} v{version}")


@pytest.mark.parametrize(
    ("cls", "version", "body", "reason"),
    [
        (HeartbeatRequest, 0, b"\xff\xff", "group_id: length -1"),
        (HeartbeatRequest, 0, b"\xff\xfe", "group_id: length -2"),
        (HeartbeatRequest, 0, b"\x80\x00", "group_id: length -32768"),
        (HeartbeatRequest, 3, b"\0\1g\0\0\0\0\0\1m\xff\xfe", "group_instance_id: length -2"),
        (HeartbeatRequest, 4, b"\0", "group_id: null"),
        (HeartbeatRequest, 4, b"\x80\0", "group_id: null in more than one byte"),
        (HeartbeatRequest, 4, b"\x80\x80\x80\x80\x80\x01", "varint is longer than 5 bytes"),
        (HeartbeatRequest, 4, b"\x81\x80\x02" + bytes(40000), "group_id: string of 32768 bytes"),
        (HeartbeatRequest, 4, b"\2\xff\0\0\0\0\2m\0\0", "group_id: 'utf-8' codec"),
        (HeartbeatRequest, 0, b"\0\2\xc3\x28\0\0\0\0\0\0", "group_id: 'utf-8' codec"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "topics: -1 elements"),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics: -2 elements"),
        (MetadataRequest, 1, b"\x7f\xff\xff\xff", "topics: 2147483647 elements in 0 bytes"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f\0\0\0\0", "topics: 4294967294 elements"),
        (
            ProduceRequest,
            7,
            b"\xff\xff\0\1\0\0\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xfe",
            "topic_data.partition_data.records: length -2",
        ),
    ],
)
def test_a_bad_length_is_reported_with_its_field(
    cls: type[Message], version: int, body: bytes, reason: str
) -> None:
    with pytest.raises(MalformedMessage) as caught:
        cls.decode(body, version)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{cls.__name__} v{version}")


def _with_tags(tags: bytes) -> bytes:
    return _HEARTBEAT.encode(4)[:-1] + tags


def test_unknown_tagged_fields_are_skipped() -> None:
    tags = b"\3" + b"\0\2ab" + b"\5\0" + b"\x80\1\1z"
    assert HeartbeatRequest.decode(_with_tags(tags), 4) == _HEARTBEAT


@pytest.mark.parametrize(
    "tags",
    [
        b"\2\0\1a\0\1b",  # a duplicate
        b"\2\5\1a\4\1b",  # descending
        b"\1\0\5abcd",  # a size beyond the end
        b"\1\0\xff\xff\xff\xff\x0f",  # a huge size
        b"\xff\xff\xff\xff\x0f\0\0",  # a huge count
        b"\x80\x80\x80\x80\x80\x01",  # a count without end
    ],
)
def test_bad_unknown_tags_are_refused(tags: bytes) -> None:
    with pytest.raises(MalformedMessage):
        HeartbeatRequest.decode(_with_tags(tags), 4)


_NO_TOPICS = FetchRequest(
    max_wait_ms=0,
    min_bytes=0,
    isolation_level=0,
    session_id=0,
    topics=[],
    forgotten_topics_data=[],
    rack_id="",
).encode(17)[:-1]
_STATE = b"\0\0\0\7\0\0\0\0\0\0\0\1\0"


def test_known_tagged_fields_are_read_among_unknown_ones() -> None:
    request = FetchRequest.decode(_NO_TOPICS + b"\3\0\2\2x\1\x0d" + _STATE + b"\6\1?", 17)
    assert request.cluster_id == "x"
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, 1)


@pytest.mark.parametrize(
    "tags",
    [
        b"\2\0\2\2x\0\2\2x",  # a duplicate
        b"\2\1\x0d" + _STATE + b"\0\2\2x",  # descending
        b"\1\0\3\2x",  # beyond the end
        b"\1\0\3\2xy",  # the size is larger than the field
        b"\1\1\x0c" + _STATE,  # the size is smaller than the field
        b"\x80\x80\x80\x80\x80\x01",
    ],
)
def test_bad_known_tags_are_refused(tags: bytes) -> None:
    with pytest.raises(MalformedMessage):
        FetchRequest.decode(_NO_TOPICS + tags, 17)


def test_bytes_after_a_message_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="2 bytes follow it"):
        HeartbeatRequest.decode(_HEARTBEAT.encode(4) + b"\0\0", 4)


def test_a_decoder_returns_where_the_message_ended() -> None:
    body = _HEARTBEAT.encode(4)
    buffer = b"before" + body + b"behind"
    message, position = HeartbeatRequest.decoder(4)(buffer, 6, len(buffer))
    assert message == _HEARTBEAT
    assert position == 6 + len(body)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="HeartbeatRequest has no version 5"):
        HeartbeatRequest.decoder(5)


@pytest.mark.parametrize(
    ("cls", "version", "start"),
    [
        (MetadataRequest, 9, b""),
        (MetadataRequest, 1, b""),
        (FetchRequest, 11, bytes(4) * 3 + bytes(4) + bytes(1) + bytes(8)),
        (ProduceRequest, 9, b"\0" + bytes(6)),
        (ApiVersionsRequest, 3, b"\2a\2b"),
    ],
)
def test_a_huge_count_costs_no_memory(cls: type[Message], version: int, start: bytes) -> None:
    for count in (
        b"\xff\xff\xff\xff\x07",
        b"\xff\xff\xff\x7f",
        b"\x7f\xff\xff\xff",
        b"\x7f\xff\xff\xff" * 30,
        b"\x00\x0f\xff\xff",
    ):
        tracemalloc.start()
        with pytest.raises(MalformedMessage):
            cls.decode(start + count + b"\2" * 1000, version)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 1 << 20


@pytest.mark.parametrize(
    ("cls", "version", "body"),
    [
        (MetadataRequest, 9, b"\x81\x80\x80\x05" + b"\1\0" * (10 << 20)),
        (FetchRequest, 11, bytes(25) + b"\0\0\0\1\0\1t" + b"\0\x10\0\0" + bytes(29 << 20)),
        (FetchRequest, 11, bytes(25) + b"\0\0\0\0" + b"\0\0\0\1\0\1t\0\x20\0\0" + bytes(9 << 20)),
    ],
)
def test_millions_of_elements_are_refused(cls: type[Message], version: int, body: bytes) -> None:
    with pytest.raises(MalformedMessage, match="more than 1000000 elements"):
        cls.decode(body, version)


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 9])
def test_a_million_elements_are_read_and_no_more(version: int) -> None:
    """Apache Kafka closes the connection for one more."""
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="")] * 1_000_000)
    found = MetadataRequest.decode(request.encode(version), version)
    assert len(found.topics or ()) == 1_000_000
    assert request.topics is not None
    request.topics.append(MetadataRequest.Topic(name=""))
    with pytest.raises(MalformedMessage, match="more than 1000000 elements"):
        MetadataRequest.decode(request.encode(version), version)


def _unknown_tags(count: int, first: int) -> bytes:
    tags = (encode_uvarint(first + index) + b"\0" for index in range(count))
    return encode_uvarint(count) + b"".join(tags)


@pytest.mark.long
@pytest.mark.parametrize("count", [127, 128, 10_000])
def test_ten_thousand_tagged_fields_are_skipped_without_memory(count: int) -> None:
    """As in Apache Kafka, among known ones or not."""
    data = _with_tags(_unknown_tags(count, first=0))
    fetch = _NO_TOPICS + _unknown_tags(count, first=100)
    HeartbeatRequest.decoder(4), FetchRequest.decoder(17)
    tracemalloc.start()
    assert HeartbeatRequest.decode(data, 4) == _HEARTBEAT
    FetchRequest.decode(fetch, 17)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2 * len(fetch) + 8192


def test_more_tagged_fields_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="more than 10000 tagged fields"):
        HeartbeatRequest.decode(_with_tags(_unknown_tags(10_001, first=0)), 4)
    with pytest.raises(MalformedMessage, match="more than 10000 tagged fields"):
        FetchRequest.decode(_NO_TOPICS + _unknown_tags(10_001, first=100), 17)


@pytest.mark.long
def test_tagged_fields_of_many_structs_are_limited_together() -> None:
    topic = b"\1" + _unknown_tags(10_000, first=0)
    with pytest.raises(MalformedMessage, match="more than 1000000 elements"):
        MetadataRequest.decode(encode_uvarint(102) + topic * 101 + b"\0" * 3, 9)


def test_a_response_is_checked_as_well() -> None:
    fields = "throttle_time_ms, error_code"
    with pytest.raises(MalformedMessage, match=f"HeartbeatResponse v1, {fields}: cut short"):
        HeartbeatResponse.decode(b"\0\0\0\0\0", 1)
