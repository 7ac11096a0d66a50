"""ListOffsets: finds the first or last offsets of partitions, or by timestamp (KIP-79)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Int8,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    replica_id: Int32
    isolation_level: Int8 = field("2+")
    topics: list[Topic]
    timeout_ms: Int32 = field("10+")

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            current_leader_epoch: Int32 = field("4+", default=-1)
            timestamp: Int64


class ListOffsetsResponse(Response, answers=ListOffsetsRequest):
    throttle_time_ms: Int32 = field("2+")
    topics: list[TopicResponse]

    class TopicResponse(Part):
        name: String
        partitions: list[PartitionResponse]

        class PartitionResponse(Part):
            partition_index: Int32
            error_code: Int16
            timestamp: Int64 = field(default=-1)
            offset: Int64 = field(default=-1)
            leader_epoch: Int32 = field("4+", default=-1)
