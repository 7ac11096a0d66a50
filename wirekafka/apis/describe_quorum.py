"""DescribeQuorum: reports the metadata quorum's leader and its replicas' offsets (KIP-595).

v1: timestamps (KIP-836), v2: directory ids (KIP-853).
"""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, api
from wirekafka.codec.message import (
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    UInt16,
    Uuid,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.parts import ReplicaProgress
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, DESCRIBE


class DescribeQuorumRequest(Request, key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData]

    class TopicData(Part):
        topic_name: String
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32


class ReplicaState(Part):
    replica_id: Int32
    replica_directory_id: Uuid = field("2+")
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field("1+", default=-1)
    last_caught_up_timestamp: Int64 = field("1+", default=-1)


class DescribeQuorumResponse(Response, answers=DescribeQuorumRequest):
    error_code: Int16
    error_message: String | None = field("2+", default="")
    topics: list[TopicData]
    nodes: list[Node] = field("2+")

    class TopicData(Part):
        topic_name: String
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field("2+", default="")
            leader_id: Int32
            leader_epoch: Int32
            high_watermark: Int64
            current_voters: list[ReplicaState]
            observers: list[ReplicaState]

    class Node(Part):
        node_id: Int32
        listeners: list[Listener]

        class Listener(Part):
            name: String
            host: String
            port: UInt16


_Topic = DescribeQuorumResponse.TopicData
_Partition = _Topic.PartitionData
_Node = DescribeQuorumResponse.Node


@api(DescribeQuorumRequest, DescribeQuorumResponse, forwarded=True)
def describe_quorum(request: DescribeQuorumRequest, call: ControllerCall) -> DescribeQuorumResponse:
    """Report the quorum's leader, high watermark and voters; the only partition is index 0."""
    if not call.is_authorized(DESCRIBE, CLUSTER):
        raise refusal(CLUSTER)
    topics = []
    is_described = False
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            known = (topic.topic_name, partition.partition_index) == (METADATA_TOPIC, 0)
            described = _quorum(call) if known else _unknown(partition.partition_index)
            is_described = is_described or described.error_code == Error.NONE
            partitions.append(described)
        topics.append(_Topic(topic_name=topic.topic_name, partitions=partitions))
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
