"""DescribeQuorum: reports the metadata quorum's leader and its replicas' offsets (KIP-595)."""

from __future__ import annotations

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
