"""Produce: appends record batches to partitions."""

from __future__ import annotations

from wirekafka.codec.message import (
    Int16,
    Int32,
    Int64,
    Part,
    Records,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.protocol.node_endpoints import NodeEndpoint


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: String | None = field(default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]

    class TopicProduceData(Part):
        name: String = field("3-12")
        topic_id: Uuid = field("13+")
        partition_data: list[PartitionProduceData]

        class PartitionProduceData(Part):
            index: Int32
            records: Records | None = field(default=b"")


class ProduceResponse(Response, answers=ProduceRequest):
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)

    class TopicProduceResponse(Part):
        name: String = field("3-12")
        topic_id: Uuid = field("13+")
        partition_responses: list[PartitionProduceResponse]

        class PartitionProduceResponse(Part):
            index: Int32
            error_code: Int16
            base_offset: Int64
            log_append_time_ms: Int64 = field(default=-1)
            log_start_offset: Int64 = field("5+", default=-1)
            record_errors: list[BatchIndexAndErrorMessage] = field("8+")
            error_message: String | None = field("8+", default=None)
            current_leader: LeaderIdAndEpoch = field("10+", tag=0)

            class BatchIndexAndErrorMessage(Part):
                batch_index: Int32
                batch_index_error_message: String | None = field(default=None)

            class LeaderIdAndEpoch(Part):
                leader_id: Int32 = field(default=-1)
                leader_epoch: Int32 = field(default=-1)
