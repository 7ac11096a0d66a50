"""AlterPartitionReassignments: starts and cancels moves of partitions to other replicas
(KIP-455).
"""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, field


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0-1", flexible="0+"):
    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic]

    class ReassignableTopic(Part):
        name: String
        partitions: list[ReassignablePartition]

        class ReassignablePartition(Part):
            partition_index: Int32
            replicas: list[Int32] | None = field(default=None)


class AlterPartitionReassignmentsResponse(Response, answers=AlterPartitionReassignmentsRequest):
    throttle_time_ms: Int32
    allow_replication_factor_change: Bool = field("1+", default=True)
    error_code: Int16
    error_message: String | None = field(default="")
    responses: list[ReassignableTopicResponse]

    class ReassignableTopicResponse(Part):
        name: String
        partitions: list[ReassignablePartitionResponse]

        class ReassignablePartitionResponse(Part):
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default="")
