"""What users with few permissions may do with topics, records and configurations."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.message import Request
from wirekafka.conformance.cases.security.permission_cases import (
    PermittedRequest,
    books_of,
    granted_group,
    granted_transaction,
)
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.describe_producers import DescribeProducersRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from wirekafka.protocol.produce import ProduceRequest

_MISSING_ID = b"m" * 16
_TOPIC, _BROKER, _METRICS, _GROUP = 2, 4, 16, 32


def topics_of(stage: Stage, *, missing: bool = True) -> list[str]:
    """The topic with permissions, the topic without, and a missing topic."""
    return [stage.topic, stage.compacted, *([stage.missing] if missing else [])]


def _produce(stage: Stage, is_transactional: bool = False) -> Request:
    kind = ProduceRequest.TopicProduceData
    options: dict[str, Any] = {
        "producer_id": 77,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    }
    # A partition that does not exist: nothing is appended.
    records = batch(**(options if is_transactional else {}))
    data = kind.PartitionProduceData(index=9, records=records)
    return ProduceRequest(
        transactional_id=granted_transaction(stage) if is_transactional else None,
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            kind(name=name, topic_id=stage.id_of(name), partition_data=[data])
            for name in topics_of(stage)
        ],
    )


def _fetch(stage: Stage, replica: int = -1) -> Request:
    kind = FetchRequest.Topic
    part = kind.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            kind(topic=name, topic_id=stage.id_of(name), partitions=[part])
            for name in topics_of(stage)
        ],
    )


def _list_offsets(stage: Stage) -> Request:
    kind = ListOffsetsRequest.Topic
    part = kind.Partition(partition_index=0, timestamp=-1)
    topics = [kind(name=name, partitions=[part]) for name in topics_of(stage)]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def _metadata(*names: str, creates: bool = False, operations: bool = True) -> Request:
    topic = MetadataRequest.Topic
    return MetadataRequest(
        topics=[topic(name=name) for name in names] if names else None,
        allow_auto_topic_creation=creates,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )


def _by_id(stage: Stage) -> Request:
    ids = [*map(stage.id_of, topics_of(stage, missing=False)), _MISSING_ID]
    return MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=id) for id in ids])


def _epochs(stage: Stage) -> Request:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    topics = [kind(topic=name, partitions=[part]) for name in topics_of(stage)]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _create(stage: Stage) -> Request:
    new = CreateTopicsRequest.CreatableTopic
    names = stage.topic, stage.name("new")
    topics = [new(name=name, num_partitions=2, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=True)


def _delete(stage: Stage) -> Request:
    state = DeleteTopicsRequest.DeleteTopicState
    # None of them can be deleted by anybody: the topics are shared.
    return DeleteTopicsRequest(
        topic_names=[stage.missing, stage.name("new")],
        topics=[state(name=stage.missing), state(name=None, topic_id=_MISSING_ID)],
        timeout_ms=5000,
    )


def _delete_own(stage: Stage) -> Request:
    state = DeleteTopicsRequest.DeleteTopicState
    name = stage.create("own")
    by_id = stage.version >= 6
    named = state(name=None, topic_id=stage.id_of(name)) if by_id else state(name=name)
    return DeleteTopicsRequest(topic_names=[name], topics=[named], timeout_ms=5000)


def _delete_records(stage: Stage) -> Request:
    kind = DeleteRecordsRequest.Topic
    part = kind.Partition(partition_index=0, offset=0)
    topics = [kind(name=name, partitions=[part]) for name in topics_of(stage)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=5000)


def _partitions(stage: Stage) -> Request:
    kind = CreatePartitionsRequest.Topic
    topics = [kind(name=name, count=3, assignments=None) for name in topics_of(stage)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=True)


def _resources(stage: Stage) -> list[tuple[int, str]]:
    named = [(_TOPIC, name) for name in topics_of(stage)]
    return [
        *named,
        (_BROKER, ""),
        (_METRICS, stage.name("metrics")),
        (_GROUP, granted_group(stage)),
    ]


def _describe_configs(stage: Stage) -> Request:
    kind = DescribeConfigsRequest.Resource
    resources = [
        kind(resource_type=number, resource_name=name, configuration_keys=["retention.ms"])
        for number, name in _resources(stage)
    ]
    return DescribeConfigsRequest(resources=resources)


def _loggers(stage: Stage) -> Request:
    kind = DescribeConfigsRequest.Resource
    name = str(stage.target.home)
    return DescribeConfigsRequest(resources=[kind(resource_type=8, resource_name=name)])


def _codes(stage: Stage, answer: Any) -> object:
    return [each.error_code for each in answer.results]


def _alter(stage: Stage) -> Request:
    kind = AlterConfigsRequest.Resource
    resources = [
        kind(resource_type=number, resource_name=name)
        for number, name in _resources(stage)
        if number in (_TOPIC, _BROKER)
    ]
    return AlterConfigsRequest(resources=resources, validate_only=True)


def _alter_some(stage: Stage) -> Request:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        kind(resource_type=number, resource_name=name) for number, name in _resources(stage)
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


def _elect(stage: Stage) -> Request:
    kind = ElectLeadersRequest.TopicPartitions
    topics = [kind(topic=stage.topic, partitions=[0])]
    return ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=5000)


def _producers(stage: Stage) -> Request:
    kind = DescribeProducersRequest.TopicRequest
    topics = [kind(name=name, partition_indexes=[0]) for name in topics_of(stage)]
    return DescribeProducersRequest(topics=topics)


def _describe_topics(stage: Stage) -> Request:
    kind = DescribeTopicPartitionsRequest.TopicRequest
    return DescribeTopicPartitionsRequest(topics=[kind(name=name) for name in topics_of(stage)])


BOOKS = books_of(
    [
        PermittedRequest(
            "", ProduceRequest, _produce, "topic WRITE, topic READ, topic DESCRIBE, -topic WRITE"
        ),
        PermittedRequest(
            "in a transaction",
            ProduceRequest,
            lambda stage: _produce(stage, is_transactional=True),
            "transaction WRITE, topic WRITE, -transaction WRITE, -topic WRITE",
        ),
        PermittedRequest(
            "", FetchRequest, _fetch, "topic READ, topic DESCRIBE, topic WRITE, -topic READ"
        ),
        PermittedRequest(
            "as a follower",
            FetchRequest,
            lambda stage: _fetch(stage, replica=99),
            "cluster CLUSTER_ACTION, topic READ, -cluster CLUSTER_ACTION",
        ),
        PermittedRequest(
            "", ListOffsetsRequest, _list_offsets, "topic DESCRIBE, topic READ, -topic DESCRIBE"
        ),
        PermittedRequest(
            "all topics",
            MetadataRequest,
            lambda _: _metadata(),
            "topic DESCRIBE, topic WRITE, topic DESCRIBE_CONFIGS, cluster DESCRIBE",
            first=1,
        ),
        PermittedRequest(
            "topics by name",
            MetadataRequest,
            lambda stage: _metadata(*topics_of(stage)),
            "topic DESCRIBE, topic ALTER, topic DELETE, cluster ALTER, -topic DESCRIBE",
            first=4,
        ),
        PermittedRequest(
            "a missing topic that may be created",
            MetadataRequest,
            lambda stage: _metadata(stage.missing, creates=True, operations=False),
            "topic CREATE",
            first=4,
        ),
        PermittedRequest(
            "topics by id", MetadataRequest, _by_id, "topic DESCRIBE, -topic DESCRIBE", first=12
        ),
        PermittedRequest(
            "",
            OffsetForLeaderEpochRequest,
            _epochs,
            "topic DESCRIBE, cluster CLUSTER_ACTION, -topic DESCRIBE",
        ),
        PermittedRequest(
            "",
            CreateTopicsRequest,
            _create,
            "cluster CREATE, topic CREATE, topic DESCRIBE_CONFIGS, -cluster CREATE, -topic CREATE",
        ),
        PermittedRequest(
            "missing topics", DeleteTopicsRequest, _delete, "topic DELETE, cluster ALTER"
        ),
        PermittedRequest(
            "a topic without permissions", DeleteTopicsRequest, _delete_own, "topic DELETE"
        ),
        PermittedRequest(
            "", DeleteRecordsRequest, _delete_records, "topic DELETE, topic WRITE, -topic DELETE"
        ),
        PermittedRequest(
            "", CreatePartitionsRequest, _partitions, "topic ALTER, cluster ALTER, -topic ALTER"
        ),
        PermittedRequest(
            "",
            DescribeConfigsRequest,
            _describe_configs,
            "topic DESCRIBE_CONFIGS, topic ALTER_CONFIGS, cluster DESCRIBE_CONFIGS, "
            "group DESCRIBE_CONFIGS, topic DESCRIBE, -topic DESCRIBE_CONFIGS",
        ),
        PermittedRequest(
            "loggers",
            DescribeConfigsRequest,
            _loggers,
            "cluster DESCRIBE_CONFIGS, cluster ALTER_CONFIGS",
            show=_codes,
        ),
        PermittedRequest(
            "",
            AlterConfigsRequest,
            _alter,
            "topic ALTER_CONFIGS, cluster ALTER_CONFIGS, topic ALTER, -topic ALTER_CONFIGS",
        ),
        PermittedRequest(
            "",
            IncrementalAlterConfigsRequest,
            _alter_some,
            "topic ALTER_CONFIGS, cluster ALTER_CONFIGS, group ALTER_CONFIGS, "
            "-topic ALTER_CONFIGS, -cluster ALTER_CONFIGS",
        ),
        PermittedRequest(
            "", ElectLeadersRequest, _elect, "cluster ALTER, topic ALTER, -cluster ALTER"
        ),
        PermittedRequest(
            "", DescribeProducersRequest, _producers, "topic READ, topic DESCRIBE, -topic READ"
        ),
        PermittedRequest(
            "",
            DescribeTopicPartitionsRequest,
            _describe_topics,
            "topic DESCRIBE, topic READ, -topic DESCRIBE",
        ),
        PermittedRequest(
            "all topics",
            DescribeTopicPartitionsRequest,
            lambda _: DescribeTopicPartitionsRequest(topics=[]),
            "topic DESCRIBE, topic WRITE",
        ),
    ]
)
