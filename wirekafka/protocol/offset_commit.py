"""OffsetCommit: commits the offsets of a group."""

from __future__ import annotations

from wirekafka.codec.message import (
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


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=-1)
    member_id: String
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1)
    topics: list[Topic]

    class Topic(Part):
        name: String = field("2-9")
        topic_id: Uuid = field("10+")
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("6+", default=-1)
            committed_metadata: String | None = field(default="")


class OffsetCommitResponse(Response, answers=OffsetCommitRequest):
    throttle_time_ms: Int32 = field("3+")
    topics: list[Topic]

    class Topic(Part):
        name: String = field("2-9")
        topic_id: Uuid = field("10+")
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16
