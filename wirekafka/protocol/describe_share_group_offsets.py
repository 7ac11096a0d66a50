"""DescribeShareGroupOffsets: the start offsets of share partitions (KIP-932)."""

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


class DescribeShareGroupOffsetsRequest(Request, key=90, versions="0-1", flexible="0+"):
    groups: list[Group]

    class Group(Part):
        group_id: String
        topics: list[Topic] | None

        class Topic(Part):
            topic_name: String
            partitions: list[Int32]


class DescribeShareGroupOffsetsResponse(Response, answers=DescribeShareGroupOffsetsRequest):
    throttle_time_ms: Int32
    groups: list[Group]

    class Group(Part):
        group_id: String
        topics: list[Topic]
        error_code: Int16
        error_message: String | None = field(default=None)

        class Topic(Part):
            topic_name: String
            topic_id: Uuid
            partitions: list[Partition]

            class Partition(Part):
                partition_index: Int32
                start_offset: Int64
                leader_epoch: Int32
                lag: Int64 = field("1+", default=-1)
                error_code: Int16
                error_message: String | None = field(default=None)
