"""ShareGroupHeartbeat: joins, stays in or leaves a share group (KIP-932)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = field(default=None)
    subscribed_topic_names: list[String] | None = field(default=None)


class ShareGroupHeartbeatResponse(Response, answers=ShareGroupHeartbeatRequest):
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
