"""IncrementalAlterConfigs: the configurations of brokers, loggers, groups and client metrics."""

from __future__ import annotations

from wirekafka.conformance.case import Need
from wirekafka.conformance.cases.admin.incremental_alter_configs import BOOK as CHANGES
from wirekafka.conformance.cases.admin.resource_configs import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    NO_BROKER,
    SET,
    SUBTRACT,
    Change,
    home,
    incremental,
    note_values,
    require_group_configs,
    without_ids,
)
from wirekafka.conformance.stage import Stage

_OF_BROKERS: dict[str, Change] = {
    "a dynamic key": ("background.threads", SET, "11"),
    "a dynamic key with a topic's counterpart": ("log.retention.ms", SET, "1000"),
    "a bad value": ("log.retention.ms", SET, "x"),
    "a value out of range": ("background.threads", SET, "0"),
    "a null value": ("log.retention.ms", SET, None),
    "a deletion": ("log.retention.ms", DELETE, None),
    "a deletion of a read-only key": ("node.id", DELETE, None),
    "a read-only key": ("node.id", SET, "9"),
    "read-only directories": ("log.dirs", SET, "/logs"),
    "an unknown key": ("no.such.key", SET, "1"),
    "an appended policy": ("log.cleanup.policy", APPEND, "compact"),
    "a subtracted policy": ("log.cleanup.policy", SUBTRACT, "delete"),
    "an element appended to a number": ("background.threads", APPEND, "1"),
    "an unknown operation": ("background.threads", 9, "1"),
    "the largest number of connections": ("max.connections", SET, "1000"),
    "a retention in hours": ("log.retention.hours", SET, "5"),
    "a throttle": ("leader.replication.throttled.rate", SET, "1000000"),
    "a negative throttle": ("leader.replication.throttled.rate", SET, "-1"),
    "the smallest number of replicas in sync": ("min.insync.replicas", SET, "0"),
    "a listener's key": ("listener.name.internal.ssl.keystore.type", SET, "PEM"),
    "addresses with limits of their own": ("max.connections.per.ip.overrides", SET, "192.0.2.1:10"),
    "a place of keys": ("ssl.keystore.location", SET, "/keys"),
    "a password of keys": ("ssl.keystore.password", SET, "secret"),
    "who needs a certificate": ("ssl.client.auth", SET, "required"),
    "mechanisms of a login": ("sasl.enabled.mechanisms", SET, "PLAIN"),
    "a class of principals": ("principal.builder.class", SET, "no.such.Class"),
    "connections of an address": ("max.connections.per.ip", SET, "100"),
    "a rate of connections": ("max.connection.creation.rate", SET, "100"),
    "no threads": ("num.io.threads", SET, "0"),
    "no number of threads": ("num.network.threads", SET, "many"),
    "a size of messages below 0": ("message.max.bytes", SET, "-1"),
    "a type of times": ("log.message.timestamp.type", SET, "Never"),
    "a kind of compression": ("compression.type", SET, "rar"),
    "an empty policy": ("log.cleanup.policy", SET, ""),
    "an unclean election": ("unclean.leader.election.enable", SET, "perhaps"),
    "a ratio above 1": ("log.cleaner.min.cleanable.ratio", SET, "2"),
    "an option of topics": ("retention.ms", SET, "1000"),
}
"""Changes that are only validated, for the home broker and for all brokers."""


def _of_broker(title: str, change: Change, *, is_named: bool) -> None:
    @CHANGES.play(title, source="KIP-226")
    def _play(stage: Stage) -> None:
        name = home(stage) if is_named else ""
        without_ids(stage, stage.ask(incremental(BROKER, name, change)))


_NAMES = {GROUP: "g", CLIENT_METRICS: "m"}


def _of_named(title: str, kind: int, change: Change, source: str) -> None:
    CHANGES.ask(title, lambda s: incremental(kind, s.name(_NAMES[kind]), change), source=source)


for _what, _change in _OF_BROKERS.items():
    _of_broker(f"of a broker, {_what}", _change, is_named=True)
    _of_broker(f"of all brokers, {_what}", _change, is_named=False)


@CHANGES.play("of another broker", needs={Need.THREE_BROKERS}, source="KIP-226")
def _of_another_broker(stage: Stage) -> None:
    """A broker refuses a change of another broker's configurations."""
    other = str(min(id for id in stage.target.nodes if id != stage.target.home))
    answer = stage.do(incremental(BROKER, other, ("background.threads", SET, "11")))
    stage.note("error", answer.responses[0].error_code)


_ANY: Change = ("background.threads", SET, "11")
CHANGES.ask("of a missing broker", lambda _: incremental(BROKER, NO_BROKER, _ANY))
CHANGES.ask("of a broker that is no number", lambda _: incremental(BROKER, "one", _ANY))
CHANGES.ask("of a negative broker", lambda _: incremental(BROKER, "-1", _ANY))

_OF_LOGGERS: dict[str, Change] = {
    "the root's level": ("root", SET, "INFO"),
    "a bad level": ("root", SET, "LOUD"),
    "a level in small letters": ("root", SET, "info"),
    "a null level": ("root", SET, None),
    "a deletion of the root's level": ("root", DELETE, None),
    "an unknown logger": ("no.such.Logger", SET, "INFO"),
    "a deletion of an unknown logger": ("no.such.Logger", DELETE, None),
    "an appended level": ("root", APPEND, "INFO"),
}
for _what, _change in _OF_LOGGERS.items():

    @CHANGES.play(f"of loggers, {_what}", source="KIP-412")
    def _of_loggers(stage: Stage, change: Change = _change) -> None:
        without_ids(stage, stage.ask(incremental(LOGGER, home(stage), change)))


CHANGES.ask("of a missing broker's loggers", lambda _: incremental(LOGGER, NO_BROKER, _ANY))
CHANGES.ask("of all brokers' loggers", lambda _: incremental(LOGGER, "", ("root", SET, "INFO")))

_OF_GROUPS: dict[str, Change] = {
    "a session timeout": ("consumer.session.timeout.ms", SET, "50000"),
    "a session timeout that is too short": ("consumer.session.timeout.ms", SET, "1"),
    "a session timeout that is too long": ("consumer.session.timeout.ms", SET, "99999999"),
    "a heartbeat that is too long": ("consumer.heartbeat.interval.ms", SET, "99999999"),
    "a heartbeat that is no number": ("consumer.heartbeat.interval.ms", SET, "x"),
    "an assignment interval that is too long": ("consumer.assignment.interval.ms", SET, "99999999"),
    "an assignor to be moved": ("consumer.assignor.offload.enable", SET, "maybe"),
    "a share session timeout that is too long": ("share.session.timeout.ms", SET, "99999999"),
    "a share heartbeat that is too long": ("share.heartbeat.interval.ms", SET, "99999999"),
    "a lock that is too short": ("share.record.lock.duration.ms", SET, "1"),
    "a lock": ("share.record.lock.duration.ms", SET, "20000"),
    "too few deliveries": ("share.delivery.count.limit", SET, "1"),
    "too many deliveries": ("share.delivery.count.limit", SET, "1000"),
    "too few locks": ("share.partition.max.record.locks", SET, "1"),
    "too many locks": ("share.partition.max.record.locks", SET, "10000000"),
    "a reset to the earliest": ("share.auto.offset.reset", SET, "earliest"),
    "a reset by a duration": ("share.auto.offset.reset", SET, "by_duration:PT1H"),
    "a reset by a negative duration": ("share.auto.offset.reset", SET, "by_duration:-PT1H"),
    "a reset by no duration": ("share.auto.offset.reset", SET, "by_duration:1h"),
    "a reset to none": ("share.auto.offset.reset", SET, "none"),
    "a reset in capitals": ("share.auto.offset.reset", SET, "EARLIEST"),
    "an isolation": ("share.isolation.level", SET, "read_committed"),
    "an unknown isolation": ("share.isolation.level", SET, "serializable"),
    "too many standby tasks": ("streams.num.standby.replicas", SET, "1000"),
    "too many warm-up tasks": ("streams.num.warmup.replicas", SET, "1000"),
    "a streams session timeout that is too short": ("streams.session.timeout.ms", SET, "1"),
    "a streams heartbeat that is too long": ("streams.heartbeat.interval.ms", SET, "99999999"),
    "an unknown assignor": ("streams.assignor.name", SET, "sticker"),
    "a tag twice": ("streams.rack.aware.assignment.tags", SET, "zone,rack,zone"),
    "too short a time between offsets": ("streams.task.offset.interval.ms", SET, "1"),
    "a topic of dead letters with an internal name": (
        "errors.deadletterqueue.topic.name",
        SET,
        "__letters",
    ),
    "an appended tag": ("streams.rack.aware.assignment.tags", APPEND, "zone"),
    "a subtracted tag": ("streams.rack.aware.assignment.tags", SUBTRACT, "zone"),
    "an unknown key": ("no.such.key", SET, "1"),
    "a deletion of an unknown key": ("no.such.key", DELETE, None),
    "a null value": ("consumer.session.timeout.ms", SET, None),
    "an element appended to a number": ("consumer.session.timeout.ms", APPEND, "1"),
}
for _what, _change in _OF_GROUPS.items():
    _of_named(f"of a group, {_what}", GROUP, _change, "KIP-848")
CHANGES.ask(
    "of a group with an empty name",
    lambda _: incremental(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
)

_OF_METRICS: dict[str, Change] = {
    "an interval": ("interval.ms", SET, "100"),
    "an interval that is too short": ("interval.ms", SET, "99"),
    "the longest interval": ("interval.ms", SET, "3600000"),
    "an interval that is too long": ("interval.ms", SET, "3600001"),
    "an interval that is no number": ("interval.ms", SET, "often"),
    "a match": ("match", SET, "client_id=a.*,client_software_name=b"),
    "a match of nothing": ("match", SET, ""),
    "a match without a pattern": ("match", SET, "client_id"),
    "a match with two signs": ("match", SET, "client_id=a=b"),
    "a match with a bad pattern": ("match", SET, "client_id=["),
    "a match of an unknown property": ("match", SET, "colour=red"),
    "all metrics": ("metrics", SET, "*"),
    "no metrics": ("metrics", SET, ""),
    "some metrics": ("metrics", SET, "org.apache.kafka.producer.,org.apache.kafka.consumer."),
    "an appended metric": ("metrics", APPEND, "a"),
    "a subtracted metric": ("metrics", SUBTRACT, "a"),
    "an element appended to the interval": ("interval.ms", APPEND, "1"),
    "an unknown key": ("no.such.key", SET, "1"),
    "a deletion": ("interval.ms", DELETE, None),
}
for _what, _change in _OF_METRICS.items():
    _of_named(f"of client metrics, {_what}", CLIENT_METRICS, _change, "KIP-714")
CHANGES.ask(
    "of client metrics with an empty name",
    lambda _: incremental(CLIENT_METRICS, "", ("interval.ms", SET, "1000")),
    source="KIP-714",
)


@CHANGES.play("the configurations of a group", source="KIP-848")
def _group(stage: Stage) -> None:
    """Values of a group are set, changed and deleted one by one."""
    require_group_configs(stage)
    name = stage.name("g")
    for change in (
        ("consumer.session.timeout.ms", SET, "50000"),
        ("share.auto.offset.reset", SET, "earliest"),
        ("share.isolation.level", SET, "serializable"),
        ("consumer.session.timeout.ms", SET, "46000"),
        ("share.auto.offset.reset", DELETE, None),
    ):
        stage.ask(incremental(GROUP, name, change, validate_only=False))
        note_values(stage, GROUP, name)


@CHANGES.play("the configurations of client metrics", source="KIP-714")
def _metrics(stage: Stage) -> None:
    """Values of a subscription are set, lengthened and deleted one by one."""
    name = stage.name("m")
    for change in (
        # First, so that the subscription is at no time for the clients of other cases.
        ("match", SET, "client_id=nobody"),
        ("metrics", SET, "a,b"),
        ("metrics", APPEND, "c"),
        ("metrics", SUBTRACT, "a"),
        ("match", SET, "client_id=none of them"),
        ("match", SET, "client_id=["),
        ("metrics", DELETE, None),
    ):
        stage.ask(incremental(CLIENT_METRICS, name, change, validate_only=False))
        note_values(stage, CLIENT_METRICS, name)
