"""AlterShareGroupOffsets: sets the start offsets of share partitions (KIP-932)."""

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


class AlterShareGroupOffsetsRequest(Request, key=91, versions="0", flexible="0+"):
    group_id: String
    topics: list[Topic]

    class Topic(Part):
        topic_name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            start_offset: Int64


class AlterShareGroupOffsetsResponse(Response, answers=AlterShareGroupOffsetsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[Topic]

    class Topic(Part):
        topic_name: String
        topic_id: Uuid
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
