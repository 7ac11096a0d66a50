"""Messages as objects: defaults, equality, refused values, records without copies."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from wirekafka.codec.message import Buffer, Int32, Message, UnencodableMessage, field
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.protocol.records.metadata import ConfigRecord, FenceBrokerRecord

Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData
ProducedPartition = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
Leader = ProducedPartition.LeaderIdAndEpoch


class Ranged(Message, versions="0-3", flexible="2+"):
    """Every kind of range a field may have."""

    null_later: list[Int32] | None = field(nullable="1+", default=None)
    tagged_later: Int32 = field(default=7, tag=0, tagged="2+")


def _partition(records: Any, index: int = 0) -> Partition:
    return Partition(partition_index=index, error_code=0, high_watermark=9, records=records)


def _response(*records: Any) -> FetchResponse:
    partitions = [_partition(one, index) for index, one in enumerate(records)]
    topic = Topic(topic="t", topic_id=bytes(16), partitions=partitions)
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])


def test_unset_fields_take_kafkas_defaults() -> None:
    request = FetchRequest()
    assert request.max_bytes == 0x7FFFFFFF
    assert request.cluster_id is None
    assert request.topics == []
    assert request.replica_state.replica_epoch == -1


def test_lists_of_two_messages_are_not_shared() -> None:
    FetchRequest().topics.append(FetchRequest.Topic())
    assert FetchRequest().topics == []


def test_a_shared_default_cannot_be_changed() -> None:
    partition = ProducedPartition()
    with pytest.raises(AttributeError, match="assign a new LeaderIdAndEpoch"):
        partition.current_leader.leader_id = 5
    partition.current_leader = Leader(leader_id=5)
    assert partition.current_leader.leader_id == 5
    assert ProducedPartition().current_leader.leader_id == -1


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        HeartbeatRequest(group="g")
    with pytest.raises(AttributeError):
        HeartbeatRequest().group = "g"


def test_messages_with_the_same_values_are_equal() -> None:
    assert _response(b"x") == _response(b"x")
    assert _response(b"x") != _response(b"y")
    assert ProducedPartition() == ProducedPartition(current_leader=Leader())
    assert ProducedPartition(current_leader=Leader()) == ProducedPartition()
    assert HeartbeatRequest() != HeartbeatResponse()


def test_the_representation_shows_every_field() -> None:
    shown = repr(ProducedPartition(index=3))
    assert shown.startswith("ProduceResponse.TopicProduceResponse.PartitionProduceResponse(index=3")
    assert "LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)" in shown


def test_the_api_key_of_a_class_is_separate_from_a_field_named_key() -> None:
    assert FindCoordinatorRequest.key == 10
    assert FindCoordinatorRequest(key="group").key == "group"
    assert (ConfigRecord.key, FenceBrokerRecord.key) == (4, 7)
    assert ProduceResponse.key == ProduceRequest.key == 0
    assert ProduceResponse.versions == ProduceRequest.versions == (3, 13)


def test_fields_that_a_version_lacks_are_left_out() -> None:
    response = HeartbeatResponse(throttle_time_ms=5, error_code=27)
    assert response.encode(0) == b"\0\x1b"
    assert HeartbeatResponse.decode(b"\0\x1b", 0).throttle_time_ms == 0


def test_null_is_allowed_only_in_nullable_versions() -> None:
    assert Ranged().encode(1) == b"\xff\xff\xff\xff\0\0\0\7"
    with pytest.raises(UnencodableMessage, match="Ranged v0, null_later"):
        Ranged().encode(0)


def test_a_field_may_become_a_tagged_one() -> None:
    plain, tagged = Ranged(tagged_later=9).encode(1), Ranged(tagged_later=9).encode(2)
    assert plain == b"\xff\xff\xff\xff\0\0\0\x09"
    assert tagged == b"\0\1\0\4\0\0\0\x09"
    assert Ranged.decode(plain, 1) == Ranged.decode(tagged, 2) == Ranged(tagged_later=9)


def test_a_nullable_struct_is_marked() -> None:
    request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1)
    assert request.encode(0)[-2:] == b"\xff\0"
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=2)
    request.cursor = cursor
    assert DescribeTopicPartitionsRequest.decode(request.encode(0), 0).cursor == cursor


@pytest.mark.parametrize(
    ("message", "version", "reason"),
    [
        (HeartbeatRequest(generation_id=1 << 31), 4, "HeartbeatRequest v4, generation_id: "),
        (
            HeartbeatResponse(error_code=-40000),
            1,
            "HeartbeatResponse v1, throttle_time_ms, error_code",
        ),
        (HeartbeatRequest(group_id=None), 4, "group_id: 'NoneType'"),
        (HeartbeatRequest(group_id="x" * 32768), 4, "group_id: string of 32768 bytes"),
        (HeartbeatRequest(group_id="x" * 32768), 0, "group_id"),
        (HeartbeatRequest(group_id="\ud800"), 4, "group_id: 'utf-8' codec"),
        (MetadataRequest(topics=None), 0, "topics: "),
        (
            MetadataRequest(topics=[MetadataRequest.Topic(topic_id=b"short", name="")]),
            10,
            "topics.topic_id: uuid of 5 bytes",
        ),
        (FetchRequest(topics=[None]), 4, "topics"),
    ],
)
def test_a_value_out_of_range_is_reported_with_its_field(
    message: Message, version: int, reason: str
) -> None:
    with pytest.raises(UnencodableMessage) as caught:
        message.encode(version)
    assert reason in str(caught.value)


def test_the_longest_string_fits() -> None:
    for version in (0, 4):
        request = HeartbeatRequest(group_id="x" * 32767)
        assert HeartbeatRequest.decode(request.encode(version), version) == request


def test_an_unknown_version_is_not_encoded() -> None:
    with pytest.raises(UnencodableMessage, match="HeartbeatRequest has no version 9"):
        HeartbeatRequest().encode(9)


class LogSlice:
    """Records as the log returns them for a fetch."""

    def __init__(self, *parts: bytes):
        self.size_bytes = sum(map(len, parts))
        self._parts = parts

    def buffers(self) -> list[Buffer]:
        return list(self._parts)


_BATCH = b"batch" * 60


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize(
    "records",
    [
        _BATCH,
        memoryview(_BATCH),
        bytearray(_BATCH),
        [_BATCH[:7], _BATCH[7:]],
        (_BATCH[:7], b"", memoryview(_BATCH)[7:]),
        LogSlice(_BATCH[:100], _BATCH[100:]),
    ],
    ids=["bytes", "memoryview", "bytearray", "list", "tuple", "slice of a log"],
)
def test_records_of_any_form_have_the_same_bytes(records: Any, version: int) -> None:
    expected = _response(_BATCH, None, b"", b"x").encode(version)
    assert _response(records, None, b"", b"x").encode(version) == expected
    decoded = FetchResponse.decode(expected, version).responses[0].partitions
    assert [partition.records for partition in decoded] == [_BATCH, None, b"", b"x"]


def test_large_records_are_encoded_without_a_copy() -> None:
    parts = [b"first" * 1000, b"second" * 1000]
    batch = _BATCH * 100
    chunks: list[Buffer] = []
    head = bytearray(b"before")
    rest = FetchResponse.encoder(12)(_response(LogSlice(*parts), batch), chunks, head)
    assert chunks[0] is head
    assert head.startswith(b"before")
    assert chunks[1] is parts[0]
    assert chunks[2] is parts[1]
    assert chunks[4] is batch
    assert len(chunks) == 5
    assert b"".join([*chunks, rest])[6:] == _response(b"".join(parts), batch).encode(12)


def test_small_records_share_the_buffer_of_what_is_around_them() -> None:
    large = _BATCH * 100
    records = [b"", _BATCH, LogSlice(_BATCH, large, b"", _BATCH), _BATCH, large]
    chunks: list[Buffer] = []
    head = bytearray(b"before")
    rest = FetchResponse.encoder(12)(_response(*records), chunks, head)
    assert chunks[0] is head and chunks[1] is large and chunks[3] is large
    assert len(chunks) == 4
    whole = [b"".join(each.buffers()) if isinstance(each, LogSlice) else each for each in records]
    assert b"".join([*chunks, rest])[6:] == _response(*whole).encode(12)


def test_a_message_without_records_is_one_buffer() -> None:
    chunks: list[Buffer] = []
    head = bytearray()
    assert HeartbeatResponse.encoder(4)(HeartbeatResponse(), chunks, head) is head
    assert chunks == []


def test_records_are_decoded_as_a_view_of_the_buffer() -> None:
    data = ProduceRequest.TopicProduceData
    partition = data.PartitionProduceData(index=0, records=_BATCH)
    request = ProduceRequest(
        acks=1, timeout_ms=1, topic_data=[data(name="t", partition_data=[partition])]
    )
    buffer = bytearray(b"before" + request.encode(9))
    decoded, _ = ProduceRequest.decoder(9)(memoryview(buffer), 6, len(buffer))
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is buffer
    assert records == _BATCH


@pytest.mark.parametrize("bits", [0, 7, 14, 21])
def test_records_of_every_width_of_length_are_read(bits: int) -> None:
    for size in range(max(0, (1 << bits) - 3), (1 << bits) + 2):
        expected = _response(bytes(size), b"behind").encode(12)
        partitions = FetchResponse.decode(expected, 12).responses[0].partitions
        assert [len(partition.records) for partition in partitions] == [size, 6]


def test_generated_functions_show_their_source() -> None:
    assert "message.generation_id" in inspect.getsource(HeartbeatRequest.decoder(4))
