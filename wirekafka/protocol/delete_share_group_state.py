"""DeleteShareGroupState: deletes the state of share partitions (KIP-932)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: String
    topics: list[DeleteStateData]

    class DeleteStateData(Part):
        topic_id: Uuid
        partitions: list[PartitionData]

        class PartitionData(Part):
            partition: Int32


class DeleteShareGroupStateResponse(Response, answers=DeleteShareGroupStateRequest):
    results: list[DeleteStateResult]

    class DeleteStateResult(Part):
        topic_id: Uuid
        partitions: list[PartitionResult]

        class PartitionResult(Part):
            partition: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
