"""EndQuorumEpoch: the leader of the metadata quorum resigns, and names its successors
(KIP-595).
"""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint, QuorumNodeEndpoint


class EndQuorumEpochRequest(Request, key=54, versions="0-1", flexible="1+"):
    cluster_id: String | None = field(default=None)
    topics: list[TopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+")

    class TopicData(Part):
        topic_name: String
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32
            preferred_successors: list[Int32] = field("0")
            preferred_candidates: list[ReplicaInfo] = field("1+")

            class ReplicaInfo(Part):
                candidate_id: Int32
                candidate_directory_id: Uuid


class EndQuorumEpochResponse(Response, answers=EndQuorumEpochRequest):
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
