"""IncrementalAlterConfigs: the configurations of topics, one by one."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.configured import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    UNKNOWN,
    Change,
    incremental,
    note_values,
    resource_of,
)
from wirekafka.conformance.cases.admin.topic_configs import TOGETHER, TOPIC_CONFIGS
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

BOOK = Book(IncrementalAlterConfigsRequest, "administration", ConformanceLevel.ADMIN, "KIP-339")

_RETENTION: Change = ("retention.ms", SET, "1000")

_CHANGES: dict[str, tuple[Change, ...]] = {
    "set": (_RETENTION,),
    "delete": (("retention.ms", DELETE, None),),
    "delete with a value": (("retention.ms", DELETE, "5"),),
    "delete what is not set": (("segment.ms", DELETE, None),),
    "delete an unknown key": (("no.such.key", DELETE, None),),
    "set null": (("retention.ms", SET, None),),
    "append to a list": (("cleanup.policy", APPEND, "compact"),),
    "append null to a list": (("cleanup.policy", APPEND, None),),
    "append what a list has": (("cleanup.policy", APPEND, "delete"),),
    "append a bad element": (("cleanup.policy", APPEND, "shred"),),
    "subtract from a list": (("cleanup.policy", SUBTRACT, "delete"),),
    "subtract null from a list": (("cleanup.policy", SUBTRACT, None),),
    "subtract what a list has not": (("cleanup.policy", SUBTRACT, "compact"),),
    "append to a number": (("retention.ms", APPEND, "1"),),
    "subtract from a number": (("retention.ms", SUBTRACT, "1"),),
    "append to a choice": (("compression.type", APPEND, "gzip"),),
    "append to an unknown key": (("no.such.key", APPEND, "1"),),
    "an unknown operation": (("retention.ms", 9, "1"),),
    "a negative operation": (("retention.ms", -1, "1"),),
    "one key twice": (_RETENTION, ("retention.ms", SET, "2")),
    "one key set and deleted": (_RETENTION, ("retention.ms", DELETE, None)),
    "one key appended twice": (
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", APPEND, "delete"),
    ),
    "nothing": (),
}
for _what, _change in _CHANGES.items():
    BOOK.ask(_what, lambda s, change=_change: incremental(TOPIC, s.topic, *change))
for _what, _pairs in TOGETHER.items():
    BOOK.ask(
        f"set {_what}",
        lambda s, pairs=_pairs: incremental(TOPIC, s.topic, *((k, SET, v) for k, v in pairs)),
    )
for _config in TOPIC_CONFIGS:
    BOOK.ask(
        f"good {_config.name}",
        lambda s, config=_config: incremental(TOPIC, s.topic, (config.name, SET, config.valid)),
    )
    BOOK.ask(
        f"bad {_config.name}",
        lambda s, config=_config: incremental(TOPIC, s.topic, (config.name, SET, config.invalid)),
    )

BOOK.ask("a missing topic", lambda s: incremental(TOPIC, s.missing, _RETENTION))
BOOK.ask("a bad name of a topic", lambda _: incremental(TOPIC, "a b", _RETENTION))
BOOK.ask("an empty name of a topic", lambda _: incremental(TOPIC, "", _RETENTION))
BOOK.ask("the log of metadata", lambda _: incremental(TOPIC, "__cluster_metadata", _RETENTION))
BOOK.ask("an unknown type", lambda _: incremental(UNKNOWN, "x", _RETENTION))
BOOK.ask("no resources", lambda _: IncrementalAlterConfigsRequest(resources=[]))


def _resources(*resources: Any, validate_only: bool = True) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)


BOOK.ask(
    "one topic twice",
    lambda s: _resources(
        resource_of(TOPIC, s.topic, [_RETENTION]),
        resource_of(TOPIC, s.topic, [("segment.ms", SET, "1")]),
    ),
)
BOOK.ask(
    "a topic twice beside another",
    lambda s: _resources(
        resource_of(TOPIC, s.topic, [_RETENTION]),
        resource_of(TOPIC, s.topic, [_RETENTION]),
        resource_of(TOPIC, s.compacted, [_RETENTION]),
    ),
)

_EFFECTS: dict[str, tuple[Change, ...]] = {
    "a value that is set": (_RETENTION,),
    "a value that is deleted": (("segment.ms", DELETE, None),),
    "a value that is set to null": (("segment.ms", SET, None),),
    "an element appended to a default": (("cleanup.policy", APPEND, "compact"),),
    "an element appended that is there": (("cleanup.policy", APPEND, "delete"),),
    "an element subtracted from a default": (("cleanup.policy", SUBTRACT, "delete"),),
    "an element subtracted that is not there": (("cleanup.policy", SUBTRACT, "compact"),),
    "an element appended to a list": (("leader.replication.throttled.replicas", APPEND, "1:2"),),
    "two elements appended to a list": (
        ("leader.replication.throttled.replicas", APPEND, "1:2,2:3"),
    ),
    "an element appended that a list has": (
        ("leader.replication.throttled.replicas", APPEND, "0:1,3:4"),
    ),
    "an element subtracted from a list": (
        ("leader.replication.throttled.replicas", SUBTRACT, "0:1"),
    ),
    "all elements subtracted from a list": (
        ("leader.replication.throttled.replicas", SUBTRACT, "0:1,0:2"),
    ),
    "a good and a bad value": (_RETENTION, ("segment.bytes", SET, "1")),
    "a value written with spaces": (("retention.ms", SET, " 7 "),),
}
for _what, _change in _EFFECTS.items():

    @BOOK.play(_what)
    def _effect(stage: Stage, changes: tuple[Change, ...] = _change) -> None:
        """What the topic has been configured with afterwards."""
        throttled = {"leader_replication_throttled_replicas": "0:1,0:2"}
        name = stage.create(segment_ms="60000", **throttled)
        stage.ask(incremental(TOPIC, name, *changes, validate_only=False))
        note_values(stage, TOPIC, name)


@BOOK.play("a value that is validated")
def _validated(stage: Stage) -> None:
    """Validation changes nothing."""
    name = stage.create(segment_ms="60000")
    stage.ask(incremental(TOPIC, name, _RETENTION, ("segment.ms", DELETE, None)))
    note_values(stage, TOPIC, name)


@BOOK.play("two topics of which one is bad")
def _partly(stage: Stage) -> None:
    """A resource that is refused does not keep others from being changed."""
    good, bad = stage.create("good"), stage.create("bad")
    stage.ask(
        _resources(
            resource_of(TOPIC, bad, [_RETENTION, ("no.such.key", SET, "1")]),
            resource_of(TOPIC, good, [_RETENTION]),
            resource_of(TOPIC, stage.missing, [_RETENTION]),
            validate_only=False,
        )
    )
    note_values(stage, TOPIC, good)
    note_values(stage, TOPIC, bad)


@BOOK.play("a limit that contradicts an earlier change")
def _contradicts(stage: Stage) -> None:
    """Values are checked together with what the topic has been configured with before."""
    name = stage.create(min_compaction_lag_ms="1000", retention_bytes="1000")
    for key, value in (
        ("max.compaction.lag.ms", "999"),
        ("max.compaction.lag.ms", "1000"),
        ("local.retention.bytes", "1001"),
        ("local.retention.bytes", "1000"),
    ):
        stage.ask(incremental(TOPIC, name, (key, SET, value), validate_only=False))
    stage.ask(
        incremental(TOPIC, name, ("min.compaction.lag.ms", DELETE, None), validate_only=False)
    )
    stage.ask(incremental(TOPIC, name, ("max.compaction.lag.ms", SET, "1"), validate_only=False))
    note_values(stage, TOPIC, name)
