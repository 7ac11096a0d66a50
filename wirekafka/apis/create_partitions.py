"""CreatePartitions: increases the number of partitions of topics (KIP-195).

v3: THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.config.topic_config import is_mirror
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import CreatePartitions, Growth
from wirekafka.metadata.image.image import TOPIC as TOPIC_CONFIG
from wirekafka.protocol.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from wirekafka.security.acl import ALTER, TOPIC

_Result = CreatePartitionsResponse.TopicResult
_STRICT_SINCE = 3
_MIRROR = KafkaError(Error.POLICY_VIOLATION, "The topic is a mirror of another cluster's.")


@api(CreatePartitionsRequest, CreatePartitionsResponse, forwarded=True)
async def create_partitions(
    request: CreatePartitionsRequest, call: ControllerCall
) -> CreatePartitionsResponse:
    """Add partitions to topics; each topic has a result of its own."""
    turns = Turns()
    counts = await turns.count(topic.name for topic in request.topics)
    single = [name for name, count in counts.items() if count == 1]
    may_alter = await turns.authorized(call, ALTER, TOPIC, single)
    mirrors = [
        name
        for name in single
        if name in may_alter and is_mirror(call.controller.image.config(TOPIC_CONFIG, name))
    ]
    growths = [  # Of mirrors, the source decides how many partitions they have.
        Growth(
            name=topic.name,
            count=topic.count,
            assignments=(
                None
                if topic.assignments is None
                else [each.broker_ids for each in topic.assignments]
            ),
        )
        for topic in request.topics
        if counts[topic.name] == 1 and topic.name in may_alter and topic.name not in mirrors
    ]
    quota = call.mutation_quota(strict_since=_STRICT_SINCE)
    outcome = await call.controller.submit(CreatePartitions(growths, request.validate_only, quota))
    refused = KafkaError(Error.TOPIC_AUTHORIZATION_FAILED)
    duplicate = KafkaError(Error.INVALID_REQUEST, "Duplicate topic name.")
    return CreatePartitionsResponse(
        throttle_time_ms=quota.throttle_ms(call.now_ms),
        results=[
            *(_result(name, duplicate) for name, count in counts.items() if count > 1),
            *await turns.map(
                lambda name: _result(name, refused),
                [name for name in single if name not in may_alter],
            ),
            *(_result(name, _MIRROR) for name in mirrors),
            *(_result(name, error) for name, error in outcome.items()),
        ],
    )


def _result(name: str, error: KafkaError | None) -> _Result:
    return _Result(
        name=name,
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
    )


@failure_of(create_partitions)
def create_partitions_failure(
    request: CreatePartitionsRequest, error: KafkaError, call: Call
) -> CreatePartitionsResponse:
    """Report the error for every topic of the request."""
    return CreatePartitionsResponse(
        results=[_result(topic.name, error) for topic in request.topics]
    )
