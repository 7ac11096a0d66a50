"""OffsetFetch: reads the committed offsets of groups."""

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


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    group_id: String = field("1-7")
    topics: list[Topic] | None = field("1-7", nullable="2-7", default=[])
    groups: list[Group] = field("8+")
    require_stable: Bool = field("7+")

    class Topic(Part):
        name: String
        partition_indexes: list[Int32]

    class Group(Part):
        group_id: String
        member_id: String | None = field("9+", default=None)
        member_epoch: Int32 = field("9+", default=-1)
        topics: list[Topics] | None = field(default=[])

        class Topics(Part):
            name: String = field("8-9")
            topic_id: Uuid = field("10+")
            partition_indexes: list[Int32]


class OffsetFetchResponse(Response, answers=OffsetFetchRequest):
    throttle_time_ms: Int32 = field("3+")
    topics: list[Topic] = field("1-7")
    error_code: Int16 = field("2-7")
    groups: list[Group] = field("8+")

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("5-7", default=-1)
            metadata: String | None = field(default="")
            error_code: Int16

    class Group(Part):
        group_id: String
        topics: list[Topics]
        error_code: Int16

        class Topics(Part):
            name: String = field("8-9")
            topic_id: Uuid = field("10+")
            partitions: list[Partitions]

            class Partitions(Part):
                partition_index: Int32
                committed_offset: Int64
                committed_leader_epoch: Int32 = field(default=-1)
                metadata: String | None = field(default="")
                error_code: Int16
