"""FetchSnapshot: reads a metadata snapshot of the quorum's leader by byte position (KIP-630)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Int16,
    Int32,
    Int64,
    Part,
    Records,
    Request,
    Response,
    String,
    UInt16,
    Uuid,
    field,
)


class FetchSnapshotRequest(Request, key=59, versions="0-1", flexible="0+"):
    cluster_id: String | None = field(default=None, tag=0)
    replica_id: Int32 = field(default=-1)
    max_bytes: Int32 = field(default=2147483647)
    topics: list[TopicSnapshot]

    class TopicSnapshot(Part):
        name: String
        partitions: list[PartitionSnapshot]

        class PartitionSnapshot(Part):
            partition: Int32
            current_leader_epoch: Int32
            snapshot_id: SnapshotId
            position: Int64
            replica_directory_id: Uuid = field("1+", tag=0)

            class SnapshotId(Part):
                end_offset: Int64
                epoch: Int32


class FetchSnapshotResponse(Response, answers=FetchSnapshotRequest):
    throttle_time_ms: Int32
    error_code: Int16
    topics: list[TopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)

    class TopicSnapshot(Part):
        name: String
        partitions: list[PartitionSnapshot]

        class PartitionSnapshot(Part):
            index: Int32
            error_code: Int16
            snapshot_id: SnapshotId
            current_leader: LeaderIdAndEpoch = field(tag=0)
            size: Int64
            position: Int64
            unaligned_records: Records

            class SnapshotId(Part):
                end_offset: Int64
                epoch: Int32

            class LeaderIdAndEpoch(Part):
                leader_id: Int32
                leader_epoch: Int32

    class NodeEndpoint(Part):
        node_id: Int32
        host: String
        port: UInt16
