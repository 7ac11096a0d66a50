"""CreatePartitions: grows topics to a new partition count (KIP-195);
v3: may be throttled (KIP-599).
"""

from __future__ import annotations

from collections import Counter

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Bool, Int16, Int32, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.topics import CreatePartitions, Growth


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


_Result = CreatePartitionsResponse.TopicResult


@api(CreatePartitionsRequest, CreatePartitionsResponse)
async def create_partitions(request: CreatePartitionsRequest,
                            call: Call) -> CreatePartitionsResponse:
    """Add partitions to topics; each succeeds or fails for itself."""
    counts = Counter(topic.name for topic in request.topics)
    growths = [
        Growth(
            name=topic.name,
            count=topic.count,
            assignments=(None if topic.assignments is None
                         else [each.broker_ids for each in topic.assignments]),
        )
        for topic in request.topics if counts[topic.name] == 1
    ]
    outcome = await call.broker.controller.submit(
        CreatePartitions(growths, request.validate_only))
    duplicate = KafkaError(Error.INVALID_REQUEST, "Duplicate topic name.")
    return CreatePartitionsResponse(results=[
        *(_result(name, duplicate) for name, count in counts.items() if count > 1),
        *(_result(name, error) for name, error in outcome.items()),
    ])


def _result(name: str, error: KafkaError | None) -> _Result:
    return _Result(
        name=name,
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
    )


def create_partitions_failure(request: CreatePartitionsRequest, error: KafkaError,
                              call: Call) -> CreatePartitionsResponse:
    """Every topic fails the same way."""
    return CreatePartitionsResponse(
        results=[_result(topic.name, error) for topic in request.topics])
