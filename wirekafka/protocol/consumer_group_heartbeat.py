"""ConsumerGroupHeartbeat: joins, stays in or leaves a group with server-side assignment
(KIP-848).
"""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field


class ConsumerGroupHeartbeatRequest(Request, key=68, versions="0-1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[String] | None = field(default=None)
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)

    class TopicPartitions(Part):
        topic_id: Uuid
        partitions: list[Int32]


class ConsumerGroupHeartbeatResponse(Response, answers=ConsumerGroupHeartbeatRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)

    class Assignment(Part):
        topic_partitions: list[TopicPartitions]

        class TopicPartitions(Part):
            topic_id: Uuid
            partitions: list[Int32]
