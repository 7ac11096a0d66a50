"""BeginQuorumEpoch: a new leader of the metadata quorum announces its epoch to a voter
(KIP-595).
"""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.protocol.quorum_endpoints import LeaderEndpoint, QuorumNodeEndpoint


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
