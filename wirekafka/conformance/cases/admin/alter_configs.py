"""AlterConfigs: the configurations of a resource are replaced as a whole."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.configured import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    NO_BROKER,
    TOPIC,
    UNKNOWN,
    home,
    note_values,
    replacement,
    without_ids,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_configs import AlterConfigsRequest

BOOK = Book(AlterConfigsRequest, "administration", ConformanceLevel.ADMIN, "KIP-133")

_RETENTION = ("retention.ms", "1000")


def _case(title: str, make: Any) -> None:
    @BOOK.play(title)
    def _play(stage: Stage) -> None:
        without_ids(stage, stage.ask(make(stage)))


_ASKED: dict[str, Any] = {
    "one key": lambda s: replacement(TOPIC, s.topic, _RETENTION),
    "nothing": lambda s: replacement(TOPIC, s.topic),
    "an unknown key": lambda s: replacement(TOPIC, s.topic, ("no.such.key", "1")),
    "an empty key": lambda s: replacement(TOPIC, s.topic, ("", "1")),
    "a null": lambda s: replacement(TOPIC, s.topic, ("retention.ms", None)),
    "an empty value": lambda s: replacement(TOPIC, s.topic, ("retention.ms", "")),
    "a bad value": lambda s: replacement(TOPIC, s.topic, ("retention.ms", "soon")),
    "a value out of range": lambda s: replacement(TOPIC, s.topic, ("segment.bytes", "1")),
    "one key twice": lambda s: replacement(TOPIC, s.topic, _RETENTION, ("retention.ms", "2")),
    "values that contradict each other": lambda s: replacement(
        TOPIC, s.topic, ("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")
    ),
    "a missing topic": lambda s: replacement(TOPIC, s.missing, _RETENTION),
    "a bad name of a topic": lambda s: replacement(TOPIC, "a b", _RETENTION),
    "an empty name of a topic": lambda s: replacement(TOPIC, "", _RETENTION),
    "a missing broker": lambda s: replacement(BROKER, NO_BROKER, ("log.retention.ms", "1")),
    "a broker's dynamic key": lambda s: replacement(BROKER, home(s), ("background.threads", "11")),
    "a broker's read-only key": lambda s: replacement(BROKER, home(s), ("node.id", "9")),
    "a broker's unknown key": lambda s: replacement(BROKER, home(s), ("no.such.key", "1")),
    "a broker's bad value": lambda s: replacement(BROKER, home(s), ("log.retention.ms", "x")),
    "all brokers' dynamic key": lambda s: replacement(BROKER, "", ("background.threads", "11")),
    "all brokers' read-only key": lambda s: replacement(BROKER, "", ("node.id", "9")),
    "an unknown type": lambda s: replacement(UNKNOWN, "x", _RETENTION),
    "loggers": lambda s: replacement(LOGGER, home(s), ("root", "INFO")),
    "a group's key": lambda s: replacement(GROUP, s.name("g"), ("share.isolation.level", "both")),
    "client metrics": lambda s: replacement(CLIENT_METRICS, s.name("m"), ("interval.ms", "1000")),
    "no resources": lambda s: AlterConfigsRequest(resources=[], validate_only=True),
}
for _what, _make in _ASKED.items():
    _case(_what, _make)


@BOOK.play("all configurations of a topic")
def _replaced(stage: Stage) -> None:
    """What the request does not name goes back to its default."""
    name = stage.create(retention_bytes="1000", segment_ms="60000")
    stage.ask(replacement(TOPIC, name, _RETENTION, validate_only=False))
    note_values(stage, TOPIC, name)


@BOOK.play("all configurations of a topic, which are validated")
def _validated(stage: Stage) -> None:
    """Validation changes nothing."""
    name = stage.create(segment_ms="60000")
    stage.ask(replacement(TOPIC, name, _RETENTION))
    note_values(stage, TOPIC, name)


@BOOK.play("configurations of which one is bad")
def _partly_bad(stage: Stage) -> None:
    """A bad value refuses the whole resource."""
    name = stage.create(segment_ms="60000")
    bad = ("segment.bytes", "1")
    stage.ask(replacement(TOPIC, name, _RETENTION, bad, validate_only=False))
    note_values(stage, TOPIC, name)


@BOOK.play("no configurations of a topic")
def _emptied(stage: Stage) -> None:
    """Without configurations a topic has only defaults."""
    name = stage.create(segment_ms="60000")
    stage.ask(replacement(TOPIC, name, validate_only=False))
    note_values(stage, TOPIC, name)


@BOOK.play("two topics of which one is missing")
def _partly(stage: Stage) -> None:
    """Each resource has an answer of its own."""
    name = stage.create()
    requests = [replacement(TOPIC, each, _RETENTION) for each in (name, stage.missing)]
    resources = [each.resources[0] for each in requests]
    stage.ask(AlterConfigsRequest(resources=resources, validate_only=False))
    note_values(stage, TOPIC, name)


@BOOK.play("all configurations of a group", source="KIP-848")
def _of_a_group(stage: Stage) -> None:
    name = stage.name("g")
    session = ("consumer.session.timeout.ms", "50000")
    stage.ask(replacement(GROUP, name, session, validate_only=False))
    note_values(stage, GROUP, name)
    offsets = ("share.auto.offset.reset", "earliest")
    stage.ask(replacement(GROUP, name, offsets, validate_only=False))
    note_values(stage, GROUP, name)
