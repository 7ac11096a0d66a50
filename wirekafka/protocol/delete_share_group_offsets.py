"""DeleteShareGroupOffsets: deletes the stored states of topics from a share group (KIP-932)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field


class DeleteShareGroupOffsetsRequest(Request, key=92, versions="0", flexible="0+"):
    group_id: String
    topics: list[Topic]

    class Topic(Part):
        topic_name: String


class DeleteShareGroupOffsetsResponse(Response, answers=DeleteShareGroupOffsetsRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[Topic]

    class Topic(Part):
        topic_name: String
        topic_id: Uuid
        error_code: Int16
        error_message: String | None = field(default=None)
