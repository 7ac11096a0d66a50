"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, to find divergence (KIP-101).

v1: leader epochs in the response (KIP-279), v2: fencing by the current leader epoch (KIP-320).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api, failure_of
from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION, DESCRIBE, TOPIC


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
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each epoch; a client beyond it has read a truncated log."""
    names = [topic.topic for topic in request.topics]
    # Brokers may ask about all topics, consumers since KIP-320 about those that they may describe.
    may_describe = (
        names if call.may(CLUSTER_ACTION, CLUSTER) else call.authorized(DESCRIBE, TOPIC, names)
    )
    return OffsetForLeaderEpochResponse(
        topics=[
            _TopicResult(
                topic=topic.topic,
                partitions=[
                    _end_offset(topic.topic, requested, call)
                    if topic.topic in may_describe
                    else _EpochEndOffset(
                        partition=requested.partition, error_code=Error.TOPIC_AUTHORIZATION_FAILED
                    )
                    for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_offset(
    topic: str,
    requested: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition,
    call: Call,
) -> _EpochEndOffset:
    try:
        partition = call.broker.partition(topic, requested.partition)
        partition.leading(requested.current_leader_epoch)
        epoch, end_offset = partition.log.end_offset_for_epoch(requested.leader_epoch)
    except KafkaError as error:
        return _EpochEndOffset(partition=requested.partition, error_code=error.error)
    return _EpochEndOffset(
        partition=requested.partition, error_code=0, leader_epoch=epoch, end_offset=end_offset
    )


@failure_of(offset_for_leader_epoch)
def offset_for_leader_epoch_failure(
    request: OffsetForLeaderEpochRequest, error: KafkaError, call: Call
) -> OffsetForLeaderEpochResponse:
    """Report the error for every partition of the request."""
    return OffsetForLeaderEpochResponse(
        topics=[
            _TopicResult(
                topic=topic.topic,
                partitions=[
                    _EpochEndOffset(partition=requested.partition, error_code=error.error)
                    for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
