"""CreateTopics: creates topics (KIP-4).

v4: broker defaults for the counts (KIP-464), v5: configs in the response (KIP-525),
v6: THROTTLING_QUOTA_EXCEEDED (KIP-599), v7: topic ids (KIP-516).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.config.describe import describe_topic
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import CreatedTopic, CreateTopics, NewTopic
from wirekafka.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wirekafka.replication.partition.internal_topics import METADATA_TOPIC
from wirekafka.security.acl import CLUSTER, CREATE, DESCRIBE_CONFIGS, TOPIC

_Wanted = CreateTopicsRequest.CreatableTopic
_Result = CreateTopicsResponse.CreatableTopicResult
_STRICT_SINCE = 6


@api(CreateTopicsRequest, CreateTopicsResponse, forwarded=True)
async def create_topics(request: CreateTopicsRequest, call: ControllerCall) -> CreateTopicsResponse:
    """Create topics, or only validate the request; each topic has a result of its own."""
    turns = Turns()
    counts = await turns.count(topic.name for topic in request.topics)
    refused = {
        name: KafkaError(Error.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    }
    if METADATA_TOPIC in counts:
        refused[METADATA_TOPIC] = KafkaError(
            Error.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        )
    single = [name for name in counts if name not in refused]
    await turns.step(len(counts))
    may_create = (
        counts if call.may(CREATE, CLUSTER) else await turns.authorized(call, CREATE, TOPIC, single)
    )
    may_describe = set()
    for name in single:
        await turns.step()
        if call.may(DESCRIBE_CONFIGS, TOPIC, name):
            may_describe.add(name)
        if name not in may_create:
            refused[name] = KafkaError(Error.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    wanted = []
    for topic in request.topics:
        await turns.step()
        if topic.name not in refused:
            wanted.append(_new_topic(topic))
    quota = call.mutation_quota(strict_since=_STRICT_SINCE)
    outcome = await call.controller.submit(CreateTopics(wanted, request.validate_only, quota))
    return CreateTopicsResponse(
        throttle_time_ms=quota.throttle_ms(call.now_ms),
        topics=[
            *(
                _result(name, result, call) if name in may_describe else _hidden(name, result)
                for name, result in outcome.items()
            ),
            *await turns.map(lambda each: _refused(*each), refused.items()),
        ],
    )


def _new_topic(topic: _Wanted) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, each.broker_ids) for each in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _refused(name: str, error: KafkaError) -> _Result:
    return _Result(name=name, error_code=error.error, error_message=error.message)


def _result(name: str, result: CreatedTopic | KafkaError, call: ControllerCall) -> _Result:
    if isinstance(result, KafkaError):
        return _refused(name, result)
    return _Result(
        name=name,
        topic_id=result.id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[
            _Result.CreatableTopicConfigs(
                name=entry.name,
                # As it was written, unlike in DescribeConfigs.
                value=result.configs.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(call.controller.config, result.configs)
        ],
    )


def _hidden(name: str, result: CreatedTopic | KafkaError) -> _Result:
    """The result without the topic's configs, for a client that may not describe them."""
    if isinstance(result, KafkaError):
        return _refused(name, result)
    return _Result(
        name=name,
        topic_id=result.id,
        error_message=None,
        topic_config_error_code=Error.TOPIC_AUTHORIZATION_FAILED,
        num_partitions=-1,
        replication_factor=-1,
    )


@failure_of(create_topics)
def create_topics_failure(
    request: CreateTopicsRequest, error: KafkaError, call: Call
) -> CreateTopicsResponse:
    """Report the error for every topic of the request."""
    return CreateTopicsResponse(
        topics=[_refused(name, error) for name in dict.fromkeys(t.name for t in request.topics)]
    )
