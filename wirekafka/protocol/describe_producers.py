"""DescribeProducers: lists the active producers of partitions (KIP-664)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Int64, Part, Request, Response, String, field


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest]

    class TopicRequest(Part):
        name: String
        partition_indexes: list[Int32]


class DescribeProducersResponse(Response, answers=DescribeProducersRequest):
    throttle_time_ms: Int32
    topics: list[TopicResponse]

    class TopicResponse(Part):
        name: String
        partitions: list[PartitionResponse]

        class PartitionResponse(Part):
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            active_producers: list[ProducerState]

            class ProducerState(Part):
                producer_id: Int64
                producer_epoch: Int32
                last_sequence: Int32 = field(default=-1)
                last_timestamp: Int64 = field(default=-1)
                coordinator_epoch: Int32
                current_txn_start_offset: Int64 = field(default=-1)
