"""ListPartitionReassignments: lists the partitions that are being reassigned (KIP-455)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    timeout_ms: Int32 = field(default=60000)
    topics: list[Topics] | None = field(default=None)

    class Topics(Part):
        name: String
        partition_indexes: list[Int32]


class ListPartitionReassignmentsResponse(Response, answers=ListPartitionReassignmentsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
    topics: list[OngoingTopicReassignment]

    class OngoingTopicReassignment(Part):
        name: String
        partitions: list[OngoingPartitionReassignment]

        class OngoingPartitionReassignment(Part):
            partition_index: Int32
            replicas: list[Int32]
            adding_replicas: list[Int32]
            removing_replicas: list[Int32]
