"""Vote: asks a voter of the metadata quorum for its vote in an epoch (KIP-595).

v1: voter keys and the leader's address (KIP-853), v2: pre-votes (KIP-996).
"""

from __future__ import annotations

from wirekafka.apis.raft_requests import (
    QuorumNodeEndpoint,
    addressed,
    check_cluster_id,
    leader_nodes,
    metadata_partition,
)
from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.errors import KafkaError
from wirekafka.replication.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import ReplicaKey, Vote, VoteAnswer
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


class VoteRequest(Request, key=52, versions="0-2", flexible="0+"):
    cluster_id: String | None = field(default=None)
    voter_id: Int32 = field("1+", default=-1)
    topics: list[TopicData]

    class TopicData(Part):
        topic_name: String
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            replica_epoch: Int32
            replica_id: Int32
            replica_directory_id: Uuid = field("1+")
            voter_directory_id: Uuid = field("1+")
            last_offset_epoch: Int32
            last_offset: Int64
            pre_vote: Bool = field("2+")


class VoteResponse(Response, answers=VoteRequest):
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
            vote_granted: Bool


_Topic = VoteResponse.TopicData


@controller_api(VoteRequest, VoteResponse)
async def vote(request: VoteRequest, call: ControllerCall) -> VoteResponse:
    """Grant or refuse the vote; epoch and vote are on the disk before the response is sent."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    check_cluster_id(request.cluster_id, call)
    wanted = metadata_partition(request.topics)
    raft = call.controller.raft
    try:
        answer = raft.vote(_vote(request, wanted, call), call.now_ms)
    except KafkaError as error:
        answer = VoteAnswer(leadership=raft.leadership, error=error.error)
    await raft.durable()
    partition = _Topic.PartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=answer.leadership.leader_id,
        leader_epoch=answer.leadership.epoch,
        vote_granted=answer.granted,
    )
    return VoteResponse(
        topics=[_Topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=leader_nodes(answer.leadership, call),
    )


def _vote(
    request: VoteRequest, wanted: VoteRequest.TopicData.PartitionData, call: ControllerCall
) -> Vote:
    return Vote(
        voter=addressed(request.voter_id, wanted.voter_directory_id, call),
        candidate=ReplicaKey(wanted.replica_id, wanted.replica_directory_id),
        epoch=wanted.replica_epoch,
        last_epoch=wanted.last_offset_epoch,
        end_offset=wanted.last_offset,
        pre_vote=wanted.pre_vote,
    )
