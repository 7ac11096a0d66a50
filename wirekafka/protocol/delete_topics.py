"""DeleteTopics: deletes topics (KIP-4)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, Uuid, field


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[String] = field("1-5")
    timeout_ms: Int32

    class DeleteTopicState(Part):
        name: String | None = field(default=None)
        topic_id: Uuid


class DeleteTopicsResponse(Response, answers=DeleteTopicsRequest):
    throttle_time_ms: Int32
    responses: list[DeletableTopicResult]

    class DeletableTopicResult(Part):
        name: String | None = field(nullable="6+", default="")
        topic_id: Uuid = field("6+")
        error_code: Int16
        error_message: String | None = field("5+", default=None)
