"""BeginQuorumEpoch: a new leader of the metadata quorum announces its epoch to a voter (KIP-595).

v1: voter keys and the leader's listeners (KIP-853).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.raft_requests import (
    addressed,
    check_cluster_id,
    endpoints_of,
    leader_nodes,
    metadata_partition,
)
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import KafkaError
from wirekafka.protocol.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import BeginEpoch, EpochAnswer, LeaderAndEpoch
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Topic = BeginQuorumEpochResponse.TopicData


@controller_api(BeginQuorumEpochRequest, BeginQuorumEpochResponse)
async def begin_quorum_epoch(
    request: BeginQuorumEpochRequest, call: ControllerCall
) -> BeginQuorumEpochResponse:
    """Follow the new leader, unless its epoch is older."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    check_cluster_id(request.cluster_id, call)
    wanted = metadata_partition(request.topics)
    raft = call.controller.raft
    leadership = LeaderAndEpoch(
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
