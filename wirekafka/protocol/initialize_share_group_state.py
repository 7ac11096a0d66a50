"""InitializeShareGroupState: sets the first state of share partitions (KIP-932)."""

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


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    group_id: String
    topics: list[InitializeStateData]

    class InitializeStateData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition: Int32
            state_epoch: Int32
            start_offset: Int64


class InitializeShareGroupStateResponse(Response, answers=InitializeShareGroupStateRequest):
    results: list[InitializeStateResult]

    class InitializeStateResult(Part):
        topic_id: Uuid
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
