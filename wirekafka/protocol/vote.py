"""Vote: asks a voter of the metadata quorum for its vote in an epoch (KIP-595)."""

from __future__ import annotations

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
from wirekafka.protocol.quorum_endpoints import QuorumNodeEndpoint


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
