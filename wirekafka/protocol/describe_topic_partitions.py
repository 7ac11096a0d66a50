"""DescribeTopicPartitions: describes topics and their partitions in pages (KIP-966)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, Uuid, field
from wirekafka.protocol.authorized_operations import NOT_REQUESTED


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest]
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)

    class TopicRequest(Part):
        name: String

    class Cursor(Part):
        topic_name: String
        partition_index: Int32


class DescribeTopicPartitionsResponse(Response, answers=DescribeTopicPartitionsRequest):
    throttle_time_ms: Int32
    topics: list[Topic]
    next_cursor: Cursor | None = field(default=None)

    class Topic(Part):
        error_code: Int16
        name: String | None = field(default="")
        topic_id: Uuid
        is_internal: Bool
        partitions: list[Partition]
        topic_authorized_operations: Int32 = field(default=NOT_REQUESTED)

        class Partition(Part):
            error_code: Int16
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = field(default=-1)
            replica_nodes: list[Int32]
            isr_nodes: list[Int32]
            eligible_leader_replicas: list[Int32] | None = field(default=None)
            last_known_elr: list[Int32] | None = field(default=None)
            offline_replicas: list[Int32]

    class Cursor(Part):
        topic_name: String
        partition_index: Int32
