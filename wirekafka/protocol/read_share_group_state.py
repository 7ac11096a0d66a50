"""ReadShareGroupState: reads the state of share partitions for their leaders (KIP-932)."""

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
    Uuid,
    field,
)


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: String
    topics: list[ReadStateData]

    class ReadStateData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition: Int32
            leader_epoch: Int32


class ReadShareGroupStateResponse(Response, answers=ReadShareGroupStateRequest):
    results: list[ReadStateResult]

    class ReadStateResult(Part):
        topic_id: Uuid
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            state_epoch: Int32
            start_offset: Int64
            state_batches: list[StateBatch]

            class StateBatch(Part):
                first_offset: Int64
                last_offset: Int64
                delivery_state: Int8
                delivery_count: Int16
