"""DeleteRecords: deletes records by advancing the log start offset of partitions (KIP-107)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[Topic]
    timeout_ms: Int32

    class Topic(Part):
        name: String
        partitions: list[Partition]

        class Partition(Part):
            partition_index: Int32
            offset: Int64


class DeleteRecordsResponse(Response, answers=DeleteRecordsRequest):
    throttle_time_ms: Int32
    topics: list[TopicResult]

    class TopicResult(Part):
        name: String
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition_index: Int32
            low_watermark: Int64
            error_code: Int16
