"""OffsetForLeaderEpoch: tells where a leader epoch ended, to find diverging logs (KIP-101,
KIP-279, KIP-320).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field
from wirekafka.errors import KafkaError


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    replica_id: Int32 = field("3+", default=-2)
    topics: list[OffsetForLeaderTopic]

    class OffsetForLeaderTopic(Part):
        topic: String
        partitions: list[OffsetForLeaderPartition]

        class OffsetForLeaderPartition(Part):
            partition: Int32
            current_leader_epoch: Int32 = field(default=-1)
            leader_epoch: Int32


class OffsetForLeaderEpochResponse(Response, answers=OffsetForLeaderEpochRequest):
    throttle_time_ms: Int32
    topics: list[OffsetForLeaderTopicResult]

    class OffsetForLeaderTopicResult(Part):
        topic: String
        partitions: list[EpochEndOffset]

        class EpochEndOffset(Part):
            error_code: Int16
            partition: Int32
            leader_epoch: Int32 = field(default=-1)
            end_offset: Int64 = field(default=-1)


_TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_EpochEndOffset = _TopicResult.EpochEndOffset


@api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse)
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest,
                            call: Call) -> OffsetForLeaderEpochResponse:
    """Tell where epochs end, so that clients see whether their offsets were truncated."""
    return OffsetForLeaderEpochResponse(topics=[
        _TopicResult(topic=topic.topic, partitions=[
            _answer(topic.topic, asked, call) for asked in topic.partitions])
        for topic in request.topics])


def _answer(topic: str,
            asked: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition,
            call: Call) -> _EpochEndOffset:
    try:
        partition = call.broker.partition(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except KafkaError as error:
        return _EpochEndOffset(partition=asked.partition, error_code=error.error)
    return _EpochEndOffset(partition=asked.partition, error_code=0, leader_epoch=epoch,
                           end_offset=end_offset)


def offset_for_leader_epoch_failure(request: OffsetForLeaderEpochRequest, error: KafkaError,
                                    call: Call) -> OffsetForLeaderEpochResponse:
    """Every partition fails alike."""
    return OffsetForLeaderEpochResponse(topics=[
        _TopicResult(topic=topic.topic, partitions=[
            _EpochEndOffset(partition=asked.partition, error_code=error.error)
            for asked in topic.partitions])
        for topic in request.topics])
