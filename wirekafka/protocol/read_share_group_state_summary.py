"""ReadShareGroupStateSummary: reads the state of share partitions, without batches (KIP-932)."""

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


class ReadShareGroupStateSummaryRequest(Request, key=87, versions="0-1", flexible="0+"):
    group_id: String
    topics: list[ReadStateSummaryData]

    class ReadStateSummaryData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition: Int32
            leader_epoch: Int32


class ReadShareGroupStateSummaryResponse(Response, answers=ReadShareGroupStateSummaryRequest):
    results: list[ReadStateSummaryResult]

    class ReadStateSummaryResult(Part):
        topic_id: Uuid
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            state_epoch: Int32
            leader_epoch: Int32
            start_offset: Int64
            delivery_complete_count: Int32 = field("1+", default=-1)
