"""DescribeConfigs returns the same for every option as Apache Kafka."""

import operator
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
NODE = "1"
SET, DELETE = 0, 1
STATIC = 4
KINDS = ("consumer", "share", "streams")
"""The kinds of groups with options of their own."""

# A topic, the brokers, and the options that are set before each is described.
OVERRIDES = {
    "cleanup.policy": "compact, delete",
    "min.cleanable.dirty.ratio": "0.250",
    "retention.ms": " 5000 ",
    "segment.bytes": "2097152",
    "leader.replication.throttled.replicas": "0:1",
}
DYNAMIC = {
    "log.retention.ms": "777000",
    "log.roll.ms": "86400000",
    "log.flush.interval.ms": "900000",
    "message.max.bytes": "2000000",
    "log.cleaner.min.cleanable.ratio": "0.75",
    "no.such.option": "x",
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignor.offload.enable": "false",
    "group.streams.assignor.offload.enable": "false",
    "leader.replication.throttled.rate": "1000000000",
    "follower.replication.throttled.rate": " 2000000000 ",
    "replica.alter.log.dirs.io.max.bytes.per.second": "3000000000",
}


class Configs:
    """The configurations of one running broker."""

    def __init__(self, address: tuple[str, int]):
        self._wire = Wire(address)

    def create(self, topic: str) -> None:
        new = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        [result] = self._wire.ask(CreateTopicsRequest(topics=[new]), 7).topics
        assert result.error_code == 0, result.error_message

    def delete(self, topic: str) -> None:
        state = DeleteTopicsRequest.DeleteTopicState(name=topic)
        self._wire.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10_000), 6)

    def alter(self, kind: int, name: str, values: dict[str, str | None]) -> None:
        code, message = self.try_to_alter(kind, name, values)
        assert code == 0, message

    def try_to_alter(self, kind: int, name: str, values: dict[str, str | None]) -> tuple[int, Any]:
        """The error code and the message of the response."""
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        changes = [
            resource.AlterableConfig(
                name=key, value=value, config_operation=DELETE if value is None else SET
            )
            for key, value in values.items()
        ]
        asked = resource(resource_type=kind, resource_name=name, configs=changes)
        [result] = self._wire.ask(IncrementalAlterConfigsRequest(resources=[asked]), 1).responses
        return result.error_code, result.error_message

    def describe(self, kind: int, name: str) -> dict[str, dict[str, Any]]:
        """Every option by name, with all fields of the response but the documentation."""
        asked = DescribeConfigsRequest.Resource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
        [result] = self._wire.ask(request, 4).results
        assert result.error_code == 0, result.error_message
        return {
            entry.name: {
                "value": entry.value,
                "read_only": entry.read_only,
                "source": entry.config_source,
                "sensitive": entry.is_sensitive,
                "type": entry.config_type,
                "synonyms": [(s.name, s.value, s.source) for s in entry.synonyms],
            }
            for entry in result.configs
        }


@pytest.fixture
def both(broker: Any, apache_kafka: Any) -> tuple[Configs, Configs]:
    """The broker under test and the reference."""
    return Configs(broker.address), Configs(apache_kafka.address)


@pytest.fixture
def altered(both: tuple[Configs, Configs]) -> Iterator[None]:
    """Both brokers with dynamic settings, of all brokers and of the one."""
    for configs in both:
        configs.alter(BROKER, "", dict(DYNAMIC))
        configs.alter(BROKER, NODE, {"log.retention.ms": "888000"})
    yield
    for configs in both:
        configs.alter(BROKER, NODE, {"log.retention.ms": None})
        configs.alter(BROKER, "", dict.fromkeys(DYNAMIC))


@pytest.fixture
def topic(both: tuple[Configs, Configs], unique: str) -> Iterator[str]:
    for configs in both:
        configs.create(unique)
        configs.alter(TOPIC, unique, dict(OVERRIDES))
    yield unique
    for configs in both:
        configs.delete(unique)


def test_an_untouched_topic_is_described_alike(both, unique):
    for configs in both:
        configs.create(unique)
    assert len(both[0].describe(TOPIC, unique)) == 37
    assert_alike(both, TOPIC, unique)
    for configs in both:
        configs.delete(unique)


def test_a_topic_with_overrides_is_described_alike(both, topic):
    assert_alike(both, TOPIC, topic)


def test_a_topic_under_dynamic_broker_settings_is_described_alike(both, altered, topic):
    assert_alike(both, TOPIC, topic)


def test_every_broker_option_is_described_alike(both):
    assert_alike(both, BROKER, NODE)


def test_a_broker_under_dynamic_settings_is_described_alike(both, altered):
    assert_alike(both, BROKER, NODE)


def test_the_brokers_dynamic_defaults_are_described_alike(both, altered):
    assert_alike(both, BROKER, "")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (GROUP, {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"}),
        (GROUP, {f"{kind}.assignor.offload.enable": "false" for kind in KINDS}),
        (CLIENT_METRICS, {"interval.ms": "60000", "metrics": "a,b"}),
    ],
)
def test_groups_and_client_metrics_are_described_alike(both, unique, kind, values):
    for configs in both:
        configs.alter(kind, unique, values)
    assert_alike(both, kind, unique)
    for configs in both:
        configs.alter(kind, unique, dict.fromkeys(values))


@pytest.mark.parametrize(
    "values",
    [
        {"no.such.option": "1"},
        {"consumer.session.timeout.ms": "1"},
        {"consumer.heartbeat.interval.ms": "16000"},
        {"consumer.assignment.interval.ms": "20000"},
        {"share.session.timeout.ms": "70000"},
        {"share.record.lock.duration.ms": "5000"},
        {"share.delivery.count.limit": "11"},
        {"share.delivery.count.limit": "1"},
        {"share.partition.max.record.locks": "5000"},
        {"share.assignment.interval.ms": "15001"},
        {"share.auto.offset.reset": "by_duration:-PT1H"},
        {"share.isolation.level": "serializable"},
        {"streams.num.standby.replicas": "3"},
        {"streams.num.warmup.replicas": "21"},
        {"streams.task.offset.interval.ms": "14999"},
        {"streams.session.timeout.ms": "1"},
        {"streams.assignor.name": "sticker"},
        {"streams.rack.aware.assignment.tags": "zone,rack,zone"},
        {"errors.deadletterqueue.topic.name": "__letters"},
        {"errors.deadletterqueue.copy.record.enable": "maybe"},
        *({f"{kind}.assignor.offload.enable": "maybe"} for kind in KINDS),
    ],
    ids=lambda values: ",".join(f"{name}={value}" for name, value in values.items()),
)
def test_options_of_groups_are_refused_alike(both, unique, values):
    ours, reference = (configs.try_to_alter(GROUP, unique, values) for configs in both)
    assert reference[0] != 0, "Apache Kafka accepts it"
    assert ours == reference


def assert_alike(both: tuple[Configs, Configs], kind: int, name: str) -> None:
    """Apache Kafka answers an alteration before it has taken effect, so its effect is awaited."""

    def answers() -> list[dict[str, dict[str, Any]]]:
        return comparable(*(configs.describe(kind, name) for configs in both))

    with suppress(AssertionError):
        eventually(lambda: operator.eq(*answers()), timeout_s=10)
    ours, reference = answers()
    assert ours == reference


def comparable(*described: dict[str, dict[str, Any]]) -> list[dict[str, dict[str, Any]]]:
    """Two brokers' options without those that either was started with, which may differ."""
    given = {
        name
        for entries in described
        for name, entry in entries.items()
        if STATIC in {entry["source"], *(source for _, _, source in entry["synonyms"])}
    }
    return [
        {
            name: {
                **entry,
                "value": None if name in given else entry["value"],
                "source": None if name in given else entry["source"],
                "synonyms": [synonym for synonym in entry["synonyms"] if synonym[2] != STATIC],
            }
            for name, entry in entries.items()
        }
        for entries in described
    ]
