"""CreateTopics: creates topics;
v4: broker default counts (KIP-464), v5: configs in the answer (KIP-525), v7: topic ids.
"""

from __future__ import annotations

from collections import Counter

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Bool,
    Int8,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    Uuid,
    field,
)
from wirekafka.config.describe import describe_topic
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.topics import CreatedTopic, CreateTopics, NewTopic


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool

    class CreatableTopic(Part):
        name: String
        num_partitions: Int32
        replication_factor: Int16
        assignments: list[CreatableReplicaAssignment]
        configs: list[CreatableTopicConfig]

        class CreatableReplicaAssignment(Part):
            partition_index: Int32
            broker_ids: list[Int32]

        class CreatableTopicConfig(Part):
            name: String
            value: String | None = field(default="")


class CreateTopicsResponse(Response, answers=CreateTopicsRequest):
    throttle_time_ms: Int32
    topics: list[CreatableTopicResult]

    class CreatableTopicResult(Part):
        name: String
        topic_id: Uuid = field("7+")
        error_code: Int16
        error_message: String | None = field(default="")
        topic_config_error_code: Int16 = field("5+", tag=0)
        num_partitions: Int32 = field("5+", default=-1)
        replication_factor: Int16 = field("5+", default=-1)
        configs: list[CreatableTopicConfigs] | None = field("5+", default=[])

        class CreatableTopicConfigs(Part):
            name: String
            value: String | None = field(default="")
            read_only: Bool
            config_source: Int8 = field(default=-1)
            is_sensitive: Bool


_Wanted = CreateTopicsRequest.CreatableTopic
_Result = CreateTopicsResponse.CreatableTopicResult
_METADATA_TOPIC = "__cluster_metadata"


@api(CreateTopicsRequest, CreateTopicsResponse)
async def create_topics(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """Create topics, or only see whether they could be; each succeeds or fails for itself."""
    counts = Counter(topic.name for topic in request.topics)
    refused = {
        name: KafkaError(Error.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items() if count > 1
    }
    if _METADATA_TOPIC in counts:
        refused[_METADATA_TOPIC] = KafkaError(
            Error.INVALID_REQUEST,
            f"Creation of internal topic {_METADATA_TOPIC} is prohibited.")
    wanted = [_new_topic(topic) for topic in request.topics if topic.name not in refused]
    outcome = await call.broker.controller.submit(CreateTopics(wanted, request.validate_only))
    return CreateTopicsResponse(topics=[
        *(_result(name, result, call) for name, result in outcome.items()),
        *(_result(name, error, call) for name, error in refused.items()),
    ])


def _new_topic(topic: _Wanted) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(each.partition_index, each.broker_ids) for each in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _result(name: str, result: CreatedTopic | KafkaError, call: Call) -> _Result:
    if isinstance(result, KafkaError):
        return _Result(name=name, error_code=result.error, error_message=result.message)
    return _Result(
        name=name,
        topic_id=result.id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[
            _Result.CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(call.broker.config, result.configs)
        ] if call.version >= 5 else [],
    )


def create_topics_failure(request: CreateTopicsRequest, error: KafkaError,
                          call: Call) -> CreateTopicsResponse:
    """Every topic fails the same way."""
    return CreateTopicsResponse(topics=[
        _result(name, error, call) for name in dict.fromkeys(t.name for t in request.topics)
    ])
