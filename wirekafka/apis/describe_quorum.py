"""DescribeQuorum: reports the metadata quorum's leader and its replicas' offsets (KIP-595).

v1: timestamps (KIP-836), v2: directory ids (KIP-853).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
)
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.parts import ReplicaProgress
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, DESCRIBE

_Topic = DescribeQuorumResponse.TopicData
_Partition = _Topic.PartitionData
_Node = DescribeQuorumResponse.Node


@api(DescribeQuorumRequest, DescribeQuorumResponse, forwarded=True)
def describe_quorum(request: DescribeQuorumRequest, call: ControllerCall) -> DescribeQuorumResponse:
    """Report the quorum's leader, high watermark and voters; the only partition is index 0."""
    if not call.is_authorized(DESCRIBE, CLUSTER):
        raise refusal(CLUSTER)
    asked = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    # Beside any other partition, Kafka does not know this one either.
    is_alone = asked == [(METADATA_TOPIC, 0)] and len(request.topics) == 1
    topics = [
        _Topic(
            topic_name=topic.topic_name,
            partitions=[
                _quorum(call) if is_alone else _unknown(each.partition_index)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    is_described = is_alone and topics[0].partitions[0].error_code == Error.NONE
    return DescribeQuorumResponse(
        error_message="", topics=topics, nodes=_nodes(call) if is_described else []
    )


def _quorum(call: ControllerCall) -> _Partition:
    try:
        quorum = call.controller.raft.describe(call.now_ms)
    except KafkaError as error:
        return _Partition(partition_index=0, error_code=error.error, error_message=error.message)
    return _Partition(
        partition_index=0,
        error_message="",
        leader_id=quorum.leadership.leader_id,
        leader_epoch=quorum.leadership.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_state(voter) for voter in quorum.voters],
        observers=[_state(observer) for observer in quorum.observers],
    )


def _state(replica: ReplicaProgress) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.key.id,
        # Voters from controller.quorum.voters, a static quorum, have none.
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _unknown(index: int) -> _Partition:
    return _Partition(
        partition_index=index,
        error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )


def _nodes(call: ControllerCall) -> list[_Node]:
    return [
        _Node(
            node_id=voter.id,
            listeners=[
                _Node.Listener(name=name, host=host, port=port)
                for name, host, port in voter.endpoints
            ],
        )
        for voter in call.controller.raft.voters
    ]
