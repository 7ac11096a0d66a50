"""ElectLeaders: starts an election of the preferred leaders of partitions (KIP-183)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type: Int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field(default=[])
    timeout_ms: Int32 = field(default=60000)

    class TopicPartitions(Part):
        topic: String
        partitions: list[Int32]


class ElectLeadersResponse(Response, answers=ElectLeadersRequest):
    throttle_time_ms: Int32
    error_code: Int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult]

    class ReplicaElectionResult(Part):
        topic: String
        partition_result: list[PartitionResult]

        class PartitionResult(Part):
            partition_id: Int32
            error_code: Int16
            error_message: String | None = field(default="")
