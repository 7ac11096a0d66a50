"""EndQuorumEpoch: the leader of the metadata quorum resigns, and names its successors (KIP-595).

v1: candidates by voter key and the leader's listeners (KIP-853).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.raft_requests import (
    check_cluster_id,
    endpoints_of,
    leader_nodes,
    metadata_partition,
)
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import KafkaError
from wirekafka.protocol.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import EndEpoch, EpochAnswer, LeaderAndEpoch, ReplicaKey
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Topic = EndQuorumEpochResponse.TopicData


@controller_api(EndQuorumEpochRequest, EndQuorumEpochResponse)
async def end_quorum_epoch(
    request: EndQuorumEpochRequest, call: ControllerCall
) -> EndQuorumEpochResponse:
    """Begin an election soon, if this node is among the preferred candidates."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    check_cluster_id(request.cluster_id, call)
    wanted = metadata_partition(request.topics)
    raft = call.controller.raft
    leadership = LeaderAndEpoch(
        wanted.leader_id, wanted.leader_epoch, endpoints_of(request.leader_endpoints)
    )
    preferred = [
        ReplicaKey(each.candidate_id, each.candidate_directory_id)
        for each in wanted.preferred_candidates
    ] or [ReplicaKey(id) for id in wanted.preferred_successors]
    end = EndEpoch(leadership=leadership, preferred=preferred)
    try:
        answer = raft.end_epoch(end, call.now_ms)
    except KafkaError as error:
        answer = EpochAnswer(leadership=raft.leadership, error=error.error)
    await raft.durable()
    partition = _Topic.PartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=answer.leadership.leader_id,
        leader_epoch=answer.leadership.epoch,
    )
    return EndQuorumEpochResponse(
        topics=[_Topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=leader_nodes(answer.leadership, call),
    )
