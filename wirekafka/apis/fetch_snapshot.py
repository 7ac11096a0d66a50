"""FetchSnapshot: reads a metadata snapshot of the quorum's leader by byte position (KIP-630).

v1: replica directory ids and the leader's address (KIP-853).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.replication.raft.messages import FetchSnapshot, LeaderAndEpoch, ReplicaKey
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_Wanted = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot
_Topic = FetchSnapshotResponse.TopicSnapshot
_Partition = _Topic.PartitionSnapshot


@controller_api(FetchSnapshotRequest, FetchSnapshotResponse)
def fetch_snapshot(request: FetchSnapshotRequest, call: ControllerCall) -> FetchSnapshotResponse:
    """Serve a part of a snapshot of the metadata, if this node is the quorum's leader."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    controller = call.controller
    if request.cluster_id not in (None, controller.cluster_id):
        return FetchSnapshotResponse(error_code=Error.INCONSISTENT_CLUSTER_ID)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=Error.INVALID_REQUEST)
    [topic] = request.topics
    [wanted] = topic.partitions
    if (topic.name, wanted.partition) != (METADATA_TOPIC, 0):
        unknown = _Partition(index=wanted.partition, error_code=Error.UNKNOWN_TOPIC_OR_PARTITION)
        return FetchSnapshotResponse(topics=[_Topic(name=topic.name, partitions=[unknown])])
    try:
        served = _served(request, wanted, call)
    except KafkaError as error:
        served = _Partition(error_code=error.error)
        if error.error is not Error.SNAPSHOT_NOT_FOUND:
            _name_leader(served, controller.raft.leadership)
    leadership = controller.raft.leadership
    return FetchSnapshotResponse(
        topics=[_Topic(name=METADATA_TOPIC, partitions=[served])],
        node_endpoints=[
            FetchSnapshotResponse.NodeEndpoint(node_id=leadership.leader_id, host=host, port=port)
            for name, host, port in leadership.endpoints
            if name == call.listener
        ],
    )


def _served(request: FetchSnapshotRequest, wanted: _Wanted, call: ControllerCall) -> _Partition:
    controller, id = call.controller, wanted.snapshot_id
    answer = controller.raft.fetched_snapshot(
        FetchSnapshot(
            replica=ReplicaKey(request.replica_id, wanted.replica_directory_id),
            leader_epoch=wanted.current_leader_epoch,
            snapshot=SnapshotId(id.end_offset, id.epoch),
            position=wanted.position,
        ),
        min(request.max_bytes, controller.config.controller_quorum_fetch_snapshot_max_bytes),
        call.now_ms,
    )
    served = _Partition(
        error_code=answer.error,
        snapshot_id=_Partition.SnapshotId(end_offset=id.end_offset, epoch=id.epoch),
        size=answer.size_bytes,
        position=answer.position,
        unaligned_records=answer.data,
    )
    _name_leader(served, answer.leadership)
    return served


def _name_leader(partition: _Partition, leadership: LeaderAndEpoch) -> None:
    partition.current_leader = _Partition.LeaderIdAndEpoch(
        leader_id=leadership.leader_id, leader_epoch=leadership.epoch
    )
