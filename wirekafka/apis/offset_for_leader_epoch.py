"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, to find divergence (KIP-101).

v1: leader epochs in the response (KIP-279), v2: fencing by the current leader epoch (KIP-320).
"""

from __future__ import annotations

from functools import partial

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION, DESCRIBE, TOPIC

_TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Requested = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition
_EpochEndOffset = _TopicResult.EpochEndOffset


@api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse)
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each epoch; a client beyond it has read a truncated log."""
    turns = Turns()
    names = [topic.topic for topic in request.topics]
    # Brokers may ask about all topics; consumers, since KIP-320, about topics they may describe.
    may_describe = (
        frozenset(names)
        if call.may(CLUSTER_ACTION, CLUSTER)
        else await turns.authorized(call, DESCRIBE, TOPIC, names)
    )
    topics = []
    for topic in request.topics:
        find = _end_offset if topic.topic in may_describe else _refused
        partitions = await turns.map(partial(find, topic.topic, call), topic.partitions)
        topics.append(_TopicResult(topic=topic.topic, partitions=partitions))
        await turns.step()
    return OffsetForLeaderEpochResponse(topics=topics)


def _refused(topic: str, call: Call, requested: _Requested) -> _EpochEndOffset:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    return _EpochEndOffset(partition=requested.partition, error_code=error)


def _end_offset(topic: str, call: Call, requested: _Requested) -> _EpochEndOffset:
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
