"""Differential cases: valid and invalid requests about topics, configs and the cluster."""

import secrets
from collections.abc import Callable
from typing import Any

from compat_tests.stage import NO_ID, UNKNOWN_ID, Stage
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest

Case = tuple[str, type[Request], Callable[[Stage], Request]]

TOPIC, BROKER, UNKNOWN_TYPE = 2, 4, 77
SET, DELETE, APPEND, SUBTRACT = range(4)

NAMES = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "spaces": "no spaces",
    "slash": "a/b",
    "249 characters": secrets.token_hex(4).ljust(249, "x"),
    "250 characters": secrets.token_hex(4).ljust(250, "x"),
    "unicode": "ünïcode",
}


def metadata(*names: str | None, **options: Any) -> MetadataRequest:
    topics = [MetadataRequest.Topic(name=name) for name in names]
    return MetadataRequest(topics=topics, **({"allow_auto_topic_creation": False} | options))


def metadata_cases() -> list[Case]:
    def by_id(topic_id: Callable[[Stage], bytes]) -> Callable[[Stage], Request]:
        return lambda stage: MetadataRequest(
            topics=[MetadataRequest.Topic(topic_id=topic_id(stage), name=None)],
            allow_auto_topic_creation=False,
        )

    makers: dict[str, Callable[[Stage], Request]] = {
        "of a topic": lambda stage: metadata(stage.topic),
        "of a missing topic": lambda stage: metadata(stage.missing),
        "of one topic twice": lambda stage: metadata(stage.topic, stage.topic),
        "of none": lambda _: metadata(),
        "with authorized operations": lambda stage: metadata(
            stage.topic,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
    }
    for what, name in NAMES.items():
        makers[f"of a name: {what}"] = lambda _, name=name: metadata(name)
    # Before version 4 the topic would be created, and none means all before version 1.
    cases: list[Case] = [
        (f"Metadata {name}", since(MetadataRequest, 4), make) for name, make in makers.items()
    ]
    cases.append(("Metadata", MetadataRequest, lambda stage: metadata(stage.topic)))
    by_ids = {"its": lambda stage: stage.ids[stage.topic], "unknown": lambda _: UNKNOWN_ID}
    for what, topic_id in by_ids.items():
        cases.append((f"Metadata by {what} id", since(MetadataRequest, 12), by_id(topic_id)))
    return cases


def since(request: type[Request], first: int) -> type[Request]:
    """The same request, sent only from a version on."""

    class Later:
        key = request.key
        versions = (first, request.versions[1])
        __name__ = request.__name__

    return Later  # type: ignore[return-value]


New = CreateTopicsRequest.CreatableTopic


def create(*topics: Any, validate_only: bool = True) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def new(name: str, partitions: int = 1, replicas: int = 1, **options: Any) -> Any:
    assignments = [
        New.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in options.get("assign", ())
    ]
    configs = [
        New.CreatableTopicConfig(name=key, value=value) for key, value in options.get("config", ())
    ]
    return New(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=assignments,
        configs=configs,
    )


def create_cases() -> list[Case]:
    assigned: dict[str, Any] = {
        "to broker 1": [(0, [1]), (1, [1])],
        "with a gap": [(0, [1]), (2, [1])],
        "to nobody": [(0, [])],
        "to a missing broker": [(0, [9])],
        "twice to one broker": [(0, [1, 1])],
        "to two lists of one partition": [(0, [1]), (0, [1])],
        "to a negative partition": [(-1, [1])],
    }
    configured: dict[str, Any] = {
        "known": [("retention.ms", "1000"), ("cleanup.policy", "compact,delete")],
        "unknown": [("no.such.key", "1")],
        "no number": [("retention.ms", "soon")],
        "a null": [("retention.ms", None)],
        "out of range": [("segment.bytes", "1")],
        "a bad list": [("cleanup.policy", "compact,shred")],
        "a bad choice": [("compression.type", "rar")],
        "a bad boolean": [("preallocate", "maybe")],
        "a bad double": [("min.cleanable.dirty.ratio", "2")],
        "more in-sync replicas": [("min.insync.replicas", "0")],
    }
    makers: dict[str, Callable[[Stage], Request]] = {
        "validate only": lambda stage: create(new(stage.missing, 3)),
        "default counts": lambda stage: create(new(stage.missing, -1, -1)),
        "an existing one": lambda stage: create(new(stage.topic)),
        "one twice": lambda stage: create(new(stage.missing), new(stage.missing)),
        "of no partitions": lambda stage: create(new(stage.missing, 0)),
        "of -2 partitions": lambda stage: create(new(stage.missing, -2)),
        "of no replicas": lambda stage: create(new(stage.missing, 1, 0)),
        "of three replicas": lambda stage: create(new(stage.missing, 1, 3)),
        "an internal name": lambda _: create(new("__cluster_metadata")),
        "none": lambda _: create(),
        "a colliding name": lambda stage: create(new(stage.compacted.replace("_", "."))),
        "a mix": lambda stage: create(new(stage.missing), new(stage.topic), new("a b")),
        "assigned and counted": lambda stage: create(new(stage.missing, 1, 1, assign=[(0, [1])])),
    }
    for what, name in NAMES.items():
        makers[f"named {what}"] = lambda _, name=name: create(new(name))
    for what, assign in assigned.items():
        makers[f"assigned {what}"] = lambda stage, assign=assign: create(
            new(stage.missing, -1, -1, assign=assign)
        )
    for what, config in configured.items():
        makers[f"configured {what}"] = lambda stage, config=config: create(
            new(stage.missing, config=config)
        )
    return [(f"CreateTopics {name}", CreateTopicsRequest, make) for name, make in makers.items()]


def delete_topics(*names: str) -> DeleteTopicsRequest:
    states = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=NO_ID) for name in names]
    return DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=10_000)


def delete_topic_states(*states: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    state = DeleteTopicsRequest.DeleteTopicState
    topics = [state(name=name, topic_id=topic_id) for name, topic_id in states]
    return DeleteTopicsRequest(topics=topics, topic_names=[], timeout_ms=10_000)


def delete_cases() -> list[Case]:
    six = since(DeleteTopicsRequest, 6)
    return [
        ("DeleteTopics none", DeleteTopicsRequest, lambda _: delete_topics()),
        ("DeleteTopics missing", DeleteTopicsRequest, lambda s: delete_topics(s.missing)),
        ("DeleteTopics twice", DeleteTopicsRequest, lambda s: delete_topics(s.missing, s.missing)),
        ("DeleteTopics badly named", DeleteTopicsRequest, lambda _: delete_topics("a b")),
        ("DeleteTopics unknown id", six, lambda _: delete_topic_states((None, UNKNOWN_ID))),
        ("DeleteTopics no name", six, lambda _: delete_topic_states((None, NO_ID))),
        ("DeleteTopics name and id", six, lambda s: delete_topic_states((s.topic, UNKNOWN_ID))),
        (
            "DeleteTopics the same by name and id",
            six,
            lambda s: delete_topic_states((s.missing, NO_ID), (None, UNKNOWN_ID)),
        ),
    ]


def partition_cases() -> list[Case]:
    def grow(name: str, count: int, assign: Any = None) -> Any:
        topic = CreatePartitionsRequest.Topic
        lists = None if assign is None else [topic.Assignment(broker_ids=ids) for ids in assign]
        return topic(name=name, count=count, assignments=lists)

    def request(*topics: Any) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(topics=list(topics), timeout_ms=10_000, validate_only=True)

    makers: dict[str, Callable[[Stage], Request]] = {
        "to more": lambda s: request(grow(s.topic, 4)),
        "to the same": lambda s: request(grow(s.topic, 2)),
        "to fewer": lambda s: request(grow(s.topic, 1)),
        "to none": lambda s: request(grow(s.topic, 0)),
        "to -1": lambda s: request(grow(s.topic, -1)),
        "of a missing topic": lambda s: request(grow(s.missing, 4)),
        "of one topic twice": lambda s: request(grow(s.topic, 3), grow(s.topic, 4)),
        "assigned": lambda s: request(grow(s.topic, 4, [[1], [1]])),
        "assigned too few": lambda s: request(grow(s.topic, 4, [[1]])),
        "assigned to a missing broker": lambda s: request(grow(s.topic, 3, [[9]])),
        "assigned to nobody": lambda s: request(grow(s.topic, 3, [[]])),
        "assigned twice": lambda s: request(grow(s.topic, 3, [[1, 1]])),
        "none": lambda _: request(),
    }
    return [(f"CreatePartitions {n}", CreatePartitionsRequest, make) for n, make in makers.items()]


def config_cases() -> list[Case]:
    def describe(kind: int, name: str, keys: list[str] | None, **options: Any) -> Request:
        resource = DescribeConfigsRequest.Resource(
            resource_type=kind, resource_name=name, configuration_keys=keys
        )
        return DescribeConfigsRequest(resources=[resource], include_synonyms=True, **options)

    some = ["retention.ms", "cleanup.policy", "no.such.key"]
    describing: dict[str, Callable[[Stage], Request]] = {
        "some of a topic": lambda s: describe(TOPIC, s.topic, some),
        "some documented": lambda s: describe(
            TOPIC, s.topic, some[:1], include_documentation=False
        ),
        "none of a topic": lambda s: describe(TOPIC, s.topic, []),
        "a missing topic": lambda s: describe(TOPIC, s.missing, some),
        "a badly named topic": lambda _: describe(TOPIC, "a b", some),
        "no topic": lambda _: describe(TOPIC, "", some),
        "some of the broker": lambda _: describe(
            BROKER, "1", ["background.threads", "log.segment.bytes"]
        ),
        "a missing broker": lambda _: describe(BROKER, "9", ["num.partitions"]),
        "a broker that is no number": lambda _: describe(BROKER, "one", ["num.partitions"]),
        "the brokers' defaults": lambda _: describe(BROKER, "", ["num.partitions"]),
        "an unknown type": lambda _: describe(UNKNOWN_TYPE, "x", None),
    }
    cases: list[Case] = [
        (f"DescribeConfigs {name}", DescribeConfigsRequest, make)
        for name, make in describing.items()
    ]
    return cases + alter_cases()


def incremental(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Request:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    asked = resource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[asked], validate_only=True)


def alter_cases() -> list[Case]:
    changes: dict[str, tuple[tuple[str, int, str | None], ...]] = {
        "set": (("retention.ms", SET, "1000"),),
        "delete": (("retention.ms", DELETE, None),),
        "delete an unset": (("segment.ms", DELETE, None),),
        "delete an unknown": (("no.such.key", DELETE, None),),
        "set an unknown": (("no.such.key", SET, "1"),),
        "set no number": (("retention.ms", SET, "soon"),),
        "set null": (("retention.ms", SET, None),),
        "append to a list": (("cleanup.policy", APPEND, "compact"),),
        "append what is there": (("cleanup.policy", APPEND, "delete"),),
        "subtract from a list": (("cleanup.policy", SUBTRACT, "delete"),),
        "append to no list": (("retention.ms", APPEND, "1"),),
        "an unknown operation": (("retention.ms", 9, "1"),),
        "one key twice": (("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        "nothing": (),
    }
    cases: list[Case] = []
    for what, change in changes.items():
        make: Callable[[Stage], Request] = lambda s, c=change: incremental(TOPIC, s.topic, *c)  # noqa: E731
        cases.append((f"IncrementalAlterConfigs {what}", IncrementalAlterConfigsRequest, make))
    retention = ("retention.ms", SET, "1000")
    elsewhere: dict[str, Callable[[Stage], Request]] = {
        "a missing topic": lambda s: incremental(TOPIC, s.missing, retention),
        "a badly named topic": lambda _: incremental(TOPIC, "a b", retention),
        "a missing broker": lambda _: incremental(BROKER, "9", ("log.retention.ms", SET, "1")),
        "a read-only key": lambda _: incremental(BROKER, "1", ("log.dirs", SET, "/tmp")),
        "a broker's unknown key": lambda _: incremental(BROKER, "1", ("no.such.key", SET, "1")),
        "a broker's bad value": lambda _: incremental(BROKER, "1", ("log.retention.ms", SET, "x")),
        "an unknown type": lambda _: incremental(UNKNOWN_TYPE, "x", retention),
    }
    for what, make in elsewhere.items():
        cases.append((f"IncrementalAlterConfigs of {what}", IncrementalAlterConfigsRequest, make))
    return cases + legacy_cases()


def legacy_cases() -> list[Case]:
    def legacy(name: str, *changes: tuple[str, str | None]) -> Request:
        resource = AlterConfigsRequest.Resource
        configs = [resource.AlterableConfig(name=key, value=value) for key, value in changes]
        asked = resource(resource_type=TOPIC, resource_name=name, configs=configs)
        return AlterConfigsRequest(resources=[asked], validate_only=True)

    makers: dict[str, Callable[[Stage], Request]] = {
        "one key": lambda s: legacy(s.topic, ("retention.ms", "1000")),
        "an unknown key": lambda s: legacy(s.topic, ("no.such.key", "1")),
        "a null": lambda s: legacy(s.topic, ("retention.ms", None)),
        "a bad value": lambda s: legacy(s.topic, ("retention.ms", "soon")),
        "a missing topic": lambda s: legacy(s.missing, ("retention.ms", "1000")),
    }
    return [(f"AlterConfigs {name}", AlterConfigsRequest, make) for name, make in makers.items()]


def cluster_cases() -> list[Case]:
    def pages(
        names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
    ) -> Request:
        asked = DescribeTopicPartitionsRequest
        return asked(
            topics=[asked.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=asked.Cursor(topic_name=cursor[0], partition_index=cursor[1])
            if cursor
            else None,
        )

    def elect(*topics: tuple[str, list[int]], kind: int = 0) -> Request:
        part = ElectLeadersRequest.TopicPartitions
        asked = [part(topic=name, partitions=partitions) for name, partitions in topics]
        return ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=10_000)

    def log_dirs(name: str, *partitions: int) -> Request:
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        return DescribeLogDirsRequest(topics=[topic(topic=name, partitions=list(partitions))])

    def quorum(name: str, partition: int) -> Request:
        topic = DescribeQuorumRequest.TopicData
        data = topic.PartitionData(partition_index=partition)
        return DescribeQuorumRequest(topics=[topic(topic_name=name, partitions=[data])])

    def feature(name: str, level: int) -> Request:
        update = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level)
        return UpdateFeaturesRequest(
            timeout_ms=10_000, feature_updates=[update], validate_only=True
        )

    makers: dict[str, tuple[type[Request], Callable[[Stage], Request]]] = {
        "the cluster": (
            DescribeClusterRequest,
            lambda _: DescribeClusterRequest(include_cluster_authorized_operations=True),
        ),
        "an unknown endpoint type": (
            since(DescribeClusterRequest, 1),
            lambda _: DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=9
            ),
        ),
        "topic partitions": (DescribeTopicPartitionsRequest, lambda s: pages([s.topic])),
        "a first page": (
            DescribeTopicPartitionsRequest,
            lambda s: pages([s.topic, s.compacted], 1),
        ),
        "a later page": (
            DescribeTopicPartitionsRequest,
            lambda s: pages([s.topic, s.compacted], 5, (s.topic, 1)),
        ),
        "a page of nowhere": (
            DescribeTopicPartitionsRequest,
            lambda s: pages([s.topic], 5, (s.topic, -1)),
        ),
        "partitions of a missing topic": (
            DescribeTopicPartitionsRequest,
            lambda s: pages([s.missing]),
        ),
        "partitions of a bad name": (DescribeTopicPartitionsRequest, lambda _: pages(["a b"])),
        "an election not needed": (ElectLeadersRequest, lambda s: elect((s.topic, [0, 1]))),
        "an election of nothing": (
            ElectLeadersRequest,
            lambda s: elect((s.missing, [0]), (s.topic, [9])),
        ),
        "an unclean election": (
            since(ElectLeadersRequest, 1),
            lambda s: elect((s.topic, [0]), kind=1),
        ),
        "log directories of a missing topic": (
            DescribeLogDirsRequest,
            lambda s: log_dirs(s.missing, 0),
        ),
        "the quorum of another topic": (DescribeQuorumRequest, lambda s: quorum(s.topic, 0)),
        "the quorum of another partition": (
            DescribeQuorumRequest,
            lambda _: quorum("__cluster_metadata", 1),
        ),
        "an unknown feature": (UpdateFeaturesRequest, lambda _: feature("no.such.feature", 1)),
        "a feature's impossible level": (
            UpdateFeaturesRequest,
            lambda _: feature("metadata.version", 999),
        ),
        "a feature's level 0": (UpdateFeaturesRequest, lambda _: feature("group.version", 0)),
    }
    return [
        (f"{kind.__name__.removesuffix('Request')}: {name}", kind, make)
        for name, (kind, make) in makers.items()
    ]


CASES: list[Case] = [
    *metadata_cases(),
    *create_cases(),
    *delete_cases(),
    *partition_cases(),
    *config_cases(),
    *cluster_cases(),
]


def metadata_creates_a_topic(stage: Stage) -> Any:
    """Metadata of a missing topic creates it, reports an error at first, and then describes it."""
    story = []
    for version in (0, 3, 4, 12):
        name = f"diff-{stage.suffix}-auto-{version}"
        request = metadata(name, allow_auto_topic_creation=True)
        first = stage.ask(request, version)
        story.append((version, first["topics"]))
        eventually(lambda n=name: stage.wire.ask(metadata(n), 12).topics[0].error_code == 0)
        stage.ids[name] = stage.wire.ask(metadata(name), 12).topics[0].topic_id
        story.append((version, stage.ask(metadata(name), 12)))
    return story


PLAYS = [metadata_creates_a_topic]
