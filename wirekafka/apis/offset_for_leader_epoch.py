"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, to find divergence (KIP-101).

v1: leader epochs in the response (KIP-279), v2: fencing by the current leader epoch (KIP-320).
"""

from __future__ import annotations

from wirekafka.apis.shared.registry import Call, api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION, DESCRIBE, TOPIC

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
        set(names) if call.may(CLUSTER_ACTION, CLUSTER) else call.authorized(DESCRIBE, TOPIC, names)
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
