"""DescribeConfigs: of topics, brokers, loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.admin.resource_configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    NO_BROKER,
    OF_DEFAULT,
    OF_TOPIC,
    OWN,
    SET,
    TOPIC,
    UNKNOWN,
    describe,
    home,
    incremental,
    require_group_configs,
    values_of,
    without_ids,
)
from wirekafka.conformance.cases.admin.topic_configs import TOPIC_CONFIGS
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

BOOK = Book(DescribeConfigsRequest, "administration", ConformanceLevel.ADMIN, "KIP-133")

_FIXED = frozenset({OF_TOPIC, OF_DEFAULT})
_SOME = ["retention.ms", "cleanup.policy", "no.such.key"]


def _case(title: str, make: Any, *, versions: str = "1+", needs: Iterable[Need] = ()) -> None:
    @BOOK.play(title, versions=versions, needs=needs)
    def _play(stage: Stage) -> None:
        answer = stage.ask(make(stage))
        without_ids(stage, answer)
        for each in getattr(answer, "results", ()):
            for config in each.configs:
                _keep_fixed(config)


def _keep_fixed(config: Any) -> None:
    """Leave out of an entry what the configuration of an installation decides."""
    config.synonyms = [each for each in config.synonyms if each.source in _FIXED]
    if config.config_source not in OWN:
        config.value = config.synonyms[-1].value if config.synonyms else ""
        config.config_source = OF_DEFAULT


def _only(stage: Stage, request: DescribeConfigsRequest, key: str) -> Any:
    """The description of a key, an empty one if the broker does not know it."""
    (result,) = stage.do(request).results
    found = [each for each in result.configs if each.name == key]
    stage.note("described", len(found))
    return found[0] if found else DescribeConfigsResponse.Result.ResourceResult(name="")


_ASKED: dict[str, Any] = {
    "some of a topic": lambda s: describe(TOPIC, s.topic, _SOME),
    "some without synonyms": lambda s: describe(TOPIC, s.topic, _SOME, include_synonyms=False),
    "one key twice": lambda s: describe(TOPIC, s.topic, ["retention.ms", "retention.ms"]),
    "a key in capitals": lambda s: describe(TOPIC, s.topic, ["RETENTION.MS"]),
    "an empty key": lambda s: describe(TOPIC, s.topic, [""]),
    "a key by the name that brokers use": lambda s: describe(TOPIC, s.topic, ["log.retention.ms"]),
    "a missing topic": lambda s: describe(TOPIC, s.missing, _SOME),
    "a bad name of a topic": lambda _: describe(TOPIC, "a b", _SOME),
    "an empty name of a topic": lambda _: describe(TOPIC, "", _SOME),
    "two dots for a topic": lambda _: describe(TOPIC, "..", _SOME),
    "the log of metadata": lambda _: describe(TOPIC, "__cluster_metadata", ["retention.ms"]),
    "a broker's unknown key": lambda s: describe(BROKER, home(s), ["no.such.key"]),
    "a missing broker": lambda _: describe(BROKER, NO_BROKER, ["num.partitions"]),
    "a broker that is no number": lambda _: describe(BROKER, "one", ["num.partitions"]),
    "a negative broker": lambda _: describe(BROKER, "-1", ["num.partitions"]),
    "an unknown type": lambda _: describe(UNKNOWN, "x", None),
    "the type of nothing": lambda _: describe(0, "x", None),
    "the type of any": lambda _: describe(1, "x", None),
    "a missing broker's loggers": lambda _: describe(LOGGER, NO_BROKER, ["root"]),
    "loggers of all brokers": lambda _: describe(LOGGER, "", ["root"]),
    "an unknown logger": lambda s: describe(LOGGER, home(s), ["no.such.Logger"]),
    "a group without configurations": lambda s: describe(
        GROUP, s.name("g"), ["consumer.session.timeout.ms"]
    ),
    "a group's unknown key": lambda s: describe(GROUP, s.name("g"), ["no.such.key"]),
    "an empty name of a group": lambda _: describe(GROUP, "", ["consumer.session.timeout.ms"]),
    "client metrics without configurations": lambda s: describe(CLIENT_METRICS, s.name("m")),
    "an empty name of client metrics": lambda _: describe(CLIENT_METRICS, ""),
}
for _what, _make in _ASKED.items():
    _case(_what, _make)


@BOOK.play("another broker", needs={Need.THREE_BROKERS})
def _other_broker(stage: Stage) -> None:
    """A broker describes only itself."""
    other = next(id for id in stage.target.nodes if id != stage.target.home)
    answer = stage.ask(describe(BROKER, str(other), ["num.partitions"]))
    if isinstance(answer, DescribeConfigsResponse):
        stage.note("described", len(answer.results[0].configs))
        answer.results[0].resource_name = "another broker"
        answer.results[0].error_message = ""


@BOOK.play("no resources", versions="1+")
def _none(stage: Stage) -> None:
    stage.ask(DescribeConfigsRequest(resources=[], include_synonyms=True))


def _resources(*pairs: tuple[int, str]) -> DescribeConfigsRequest:
    parts = [
        DescribeConfigsRequest.Resource(
            resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
        )
        for kind, name in pairs
    ]
    return DescribeConfigsRequest(resources=parts)


_case("one topic twice", lambda s: _resources((TOPIC, s.topic), (TOPIC, s.topic)))
_case(
    "two topics and a missing topic",
    lambda s: _resources((TOPIC, s.topic), (TOPIC, s.missing), (TOPIC, s.compacted)),
)
_case("a topic beside an unknown type", lambda s: _resources((TOPIC, s.topic), (UNKNOWN, "x")))


@BOOK.play("no key and all keys")
def _all_keys(stage: Stage) -> None:
    """Null asks for all configurations, as an empty list does."""
    choices: tuple[list[str] | None, ...] = (None, [])
    for keys in choices:
        answer = stage.do(describe(TOPIC, stage.topic, keys))
        stage.note("keys", [each.name for each in answer.results[0].configs])


for _config in TOPIC_CONFIGS:

    @BOOK.play(f"{_config.name} of a topic", versions="1,4", source="KIP-226")
    def _of_a_topic(stage: Stage, config: Any = _config) -> None:
        """The value of the topic comes before the default, under the names that brokers use."""
        name = stage.create("set", **{config.name.replace(".", "_"): config.valid})
        stage.until(lambda: values_of(stage, TOPIC, name), "the configurations")
        found = _only(stage, describe(TOPIC, name, [config.name]), config.name)
        _keep_fixed(found)
        stage.note("set", found)
        if config.name != "retention.ms":
            found = _only(stage, describe(TOPIC, stage.topic, [config.name]), config.name)
            _keep_fixed(found)
            stage.note("default", found)


@BOOK.play("documentation", versions="3+", source="KIP-569")
def _documented(stage: Stage) -> None:
    """Each configuration has a text if the request asks for it, and otherwise none."""
    for is_wanted in (True, False):
        request = describe(TOPIC, stage.topic, None, include_documentation=is_wanted)
        (found,) = stage.do(request).results
        stage.note("documented", sorted({bool(each.documentation) for each in found.configs}))


_KEYS_OF_BROKERS = (
    *("node.id", "process.roles", "controller.quorum.voters", "log.dirs", "listeners"),
    *("advertised.listeners", "num.io.threads", "num.network.threads", "background.threads"),
    *("log.retention.ms", "log.retention.hours", "log.segment.bytes", "message.max.bytes"),
    *("log.cleaner.threads", "log.cleaner.io.max.bytes.per.second", "min.insync.replicas"),
    *("default.replication.factor", "num.partitions", "unclean.leader.election.enable"),
    *("auto.create.topics.enable", "delete.topic.enable", "compression.type", "max.connections"),
    *("group.initial.rebalance.delay.ms", "transaction.max.timeout.ms", "metric.reporters"),
    *("ssl.keystore.password", "ssl.keystore.location", "ssl.key.password", "sasl.jaas.config"),
    *("authorizer.class.name", "log.cleaner.min.cleanable.ratio", "num.replica.fetchers"),
    *("inter.broker.listener.name", "offsets.topic.num.partitions", "max.connections.per.ip"),
)
for _key in _KEYS_OF_BROKERS:

    @BOOK.play(f"a broker's {_key}", versions="1,4", source="KIP-226")
    def _of_a_broker(stage: Stage, key: str = _key) -> None:
        """The type, and whether it can be changed and is a secret; values differ anyway."""
        found = _only(stage, describe(BROKER, home(stage), [key]), key)
        stage.note("read only", found.read_only)
        stage.note("sensitive", found.is_sensitive)
        stage.note("value shown", not found.is_sensitive or found.value is None)
        if stage.version >= 3:
            stage.note("type", found.config_type)
        names = [each.name for each in found.synonyms if each.source == OF_DEFAULT]
        stage.note("names of the default", names)


@BOOK.play("a broker without synonyms", source="KIP-226")
def _no_synonyms(stage: Stage) -> None:
    request = describe(BROKER, home(stage), ["log.retention.ms"], include_synonyms=False)
    stage.note("synonyms", len(_only(stage, request, "log.retention.ms").synonyms))


@BOOK.play("dynamic defaults of all brokers")
def _all_brokers(stage: Stage) -> None:
    """Without a name only what was set for all brokers is described, and nothing else."""
    (found,) = stage.do(describe(BROKER, "")).results
    stage.note("error", found.error_code)
    stage.note("sources", sorted({each.config_source for each in found.configs} - {3}))
    stage.note("read only", any(each.read_only for each in found.configs))


@BOOK.play("a broker's loggers", source="KIP-412")
def _loggers(stage: Stage) -> None:
    """Loggers have a level each, and one source; the root logger is among them."""
    (found,) = stage.do(describe(LOGGER, home(stage))).results
    stage.note("error", found.error_code)
    stage.note("root", [each.name for each in found.configs if each.name == "root"])
    levels = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
    stage.note("levels", all(each.value in levels for each in found.configs))
    facts = {(each.config_source, each.read_only, each.is_sensitive) for each in found.configs}
    stage.note("source, read only, sensitive", sorted(facts))
    stage.note("types", sorted({each.config_type for each in found.configs}))


_SETTINGS: dict[str, tuple[int, dict[str, str]]] = {
    "a group": (
        GROUP,
        {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"},
    ),
    "client metrics": (
        CLIENT_METRICS,
        {"interval.ms": "60000", "metrics": "a,b", "match": "client_id=nobody"},
    ),
}
for _what, (_kind, _settings) in _SETTINGS.items():

    @BOOK.play(f"{_what} with configurations", source="KIP-848")
    def _configured(stage: Stage, kind: int = _kind, settings: dict[str, str] = _settings) -> None:
        """What was set is shown with its source, the rest as defaults."""
        if kind == GROUP:
            require_group_configs(stage)
        name = stage.name("set")
        changes = [(key, SET, value) for key, value in settings.items()]
        stage.do(incremental(kind, name, *changes, validate_only=False), 0)
        stage.until(lambda: values_of(stage, kind, name) == settings, f"configurations of {name}")
        answer = stage.ask(describe(kind, name, list(settings)))
        for config in answer.results[0].configs:
            _keep_fixed(config)
        (found,) = stage.do(describe(kind, name)).results
        stage.note("keys", [each.name for each in found.configs])


_GROUP_KEYS = (
    *("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.session.timeout.ms"),
    *("share.heartbeat.interval.ms", "share.record.lock.duration.ms", "share.auto.offset.reset"),
    *("share.isolation.level", "streams.num.standby.replicas", "streams.session.timeout.ms"),
    *("streams.heartbeat.interval.ms", "share.delivery.count.limit"),
)
for _key in _GROUP_KEYS:

    @BOOK.play(f"a group's {_key}", versions="1,4", source="KIP-848")
    def _of_a_group(stage: Stage, key: str = _key) -> None:
        """The type of a configuration of groups, which can be changed and is no secret."""
        found = _only(stage, describe(GROUP, stage.name("g"), [key]), key)
        stage.note("type", found.config_type)
        stage.note("read only, sensitive", [found.read_only, found.is_sensitive])
