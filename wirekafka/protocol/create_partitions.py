"""CreatePartitions: increases the number of partitions of topics (KIP-195)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, field


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[Topic]
    timeout_ms: Int32
    validate_only: Bool

    class Topic(Part):
        name: String
        count: Int32
        assignments: list[Assignment] | None = field(default=[])

        class Assignment(Part):
            broker_ids: list[Int32]


class CreatePartitionsResponse(Response, answers=CreatePartitionsRequest):
    throttle_time_ms: Int32
    results: list[TopicResult]

    class TopicResult(Part):
        name: String
        error_code: Int16
        error_message: String | None = field(default=None)
