"""Vote: asks a voter of the metadata quorum for its vote in an epoch (KIP-595).

v1: voter keys and the leader's address (KIP-853), v2: pre-votes (KIP-996).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.raft_requests import (
    addressed,
    check_cluster_id,
    leader_nodes,
    metadata_partition,
)
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import KafkaError
from wirekafka.protocol.vote import VoteRequest, VoteResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import ReplicaKey, Vote, VoteAnswer
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

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
