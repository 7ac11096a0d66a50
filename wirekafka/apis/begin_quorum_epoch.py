"""BeginQuorumEpoch: a new leader of the metadata quorum announces its epoch to a voter (KIP-595).

v1: voter keys and the leader's listeners (KIP-853).
"""

from __future__ import annotations

from wirekafka.apis.raft_requests import (
    LeaderEndpoint,
    QuorumNodeEndpoint,
    addressed,
    check_cluster_id,
    endpoints_of,
    leader_nodes,
    metadata_partition,
)
from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.errors import KafkaError
from wirekafka.replication.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import BeginEpoch, EpochAnswer, Leadership
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


class BeginQuorumEpochRequest(Request, key=53, versions="0-1", flexible="1+"):
    cluster_id: String | None = field(default=None)
    voter_id: Int32 = field("1+", default=-1)
    topics: list[TopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+")

    class TopicData(Part):
        topic_name: String
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            voter_directory_id: Uuid = field("1+")
            leader_id: Int32
            leader_epoch: Int32


class BeginQuorumEpochResponse(Response, answers=BeginQuorumEpochRequest):
    error_code: Int16
    topics: list[TopicData]
    node_endpoints: list[QuorumNodeEndpoint] = field("1+", tag=0)

    class TopicData(Part):
        topic_name: String
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            error_code: Int16
            leader_id: Int32
            leader_epoch: Int32


_Topic = BeginQuorumEpochResponse.TopicData


@controller_api(BeginQuorumEpochRequest, BeginQuorumEpochResponse)
async def begin_quorum_epoch(
    request: BeginQuorumEpochRequest, call: ControllerCall
) -> BeginQuorumEpochResponse:
    """Follow the new leader, if its epoch is not an older one."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    check_cluster_id(request.cluster_id, call)
    wanted = metadata_partition(request.topics)
    raft = call.controller.raft
    leadership = Leadership(
        wanted.leader_id, wanted.leader_epoch, endpoints_of(request.leader_endpoints)
    )
    begin = BeginEpoch(
        voter=addressed(request.voter_id, wanted.voter_directory_id, call), leadership=leadership
    )
    try:
        answer = raft.begin_epoch(begin, call.now_ms)
    except KafkaError as error:
        answer = EpochAnswer(leadership=raft.leadership, error=error.error)
    await raft.durable()
    partition = _Topic.PartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=answer.leadership.leader_id,
        leader_epoch=answer.leadership.epoch,
    )
    return BeginQuorumEpochResponse(
        topics=[_Topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=leader_nodes(answer.leadership, call),
    )
