"""WriteShareGroupState: changes the state of share partitions (KIP-932)."""

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


class WriteShareGroupStateRequest(Request, key=85, versions="0-1", flexible="0+"):
    group_id: String
    topics: list[WriteStateData]

    class WriteStateData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition: Int32
            state_epoch: Int32
            leader_epoch: Int32
            start_offset: Int64
            delivery_complete_count: Int32 = field("1+", default=-1)
            state_batches: list[StateBatch]

            class StateBatch(Part):
                first_offset: Int64
                last_offset: Int64
                delivery_state: Int8
                delivery_count: Int16


class WriteShareGroupStateResponse(Response, answers=WriteShareGroupStateRequest):
    results: list[WriteStateResult]

    class WriteStateResult(Part):
        topic_id: Uuid
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
