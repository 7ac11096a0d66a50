"""A start accepts and refuses settings as Apache Kafka's does, one by one and several at a time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from compat_tests.config_cases import Described, combinations, several, singles
from compat_tests.java_lines import JavaLines
from tests.repetitions import repetitions
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.differences import DIFFERENCES, Difference
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER

Settings = Mapping[str, str]

_SOURCE = Path(__file__).with_name("java") / "StartSettings.java"
_COUNT = repetitions("WIREKAFKA_SETTINGS", usual=150, thorough=1_500)
"""How many settings each test compares."""
_AT_ONCE = 200
_SEED = 4

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "/data/a,/data/b",
}
"""A node with all that Apache Kafka requires."""

_GROUPS = "org.apache.kafka.coordinator.group"
_ASSIGNOR = f"{_GROUPS}.assignor"
_STICKY = f"{_GROUPS}.streams.assignor.StickyTaskAssignor"

NETWORK: dict[str, Sequence[str | None]] = {
    "process.roles": ["broker", "controller", "broker,controller", "controller,broker"],
    "node.id": ["1", "2"],
    "broker.id": [None, None, "1"],
    "listeners": [
        *(None, "PLAINTEXT://:9092", "PLAINTEXT://:9092,CONTROLLER://:9093", "CONTROLLER://:9093"),
        *("A://h:1,B://:2,CONTROLLER://:3", "SSL://:1,CONTROLLER://:9", "SASL_SSL://:1"),
        *("PLAINTEXT://:1,PLAINTEXT://:2", "PLAINTEXT://:1,A://:1", "PLAINTEXT:/h:9"),
        *("plaintext://:9092,controller://:9", "A://127.0.0.1:5,B://[::1]:5"),
        *("PLAINTEXT://127.0.0.1:5,A://[::1]:5,CONTROLLER://:0", "A://:5,B://:5"),
        *("PLAINTEXT://127.0.0.1:5,A://127.0.0.2:5", "PLAINTEXT://127.0.0.1:5,CONTROLLER://h:5"),
    ],
    "advertised.listeners": [
        *(None, None, None, "PLAINTEXT://h:1", "PLAINTEXT://0.0.0.0:1", "A://h:1"),
        *("CONTROLLER://h:3", "PLAINTEXT://:1", "PLAINTEXT://h:1,CONTROLLER://h:2"),
        *("PLAINTEXT://h:0", "PLAINTEXT://h:1,PLAINTEXT://h:2", ""),
    ],
    "listener.security.protocol.map": [
        *(None, None, "A:PLAINTEXT,B:SSL,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"),
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,A:SASL_PLAINTEXT",
        *("a:plaintext,PLAINTEXT:PLAINTEXT", "", "A:FOO", "A"),
        "A:SSL,A:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    ],
    "inter.broker.listener.name": [
        *(None, None, None, "A", "PLAINTEXT", "CONTROLLER", "a", "plaintext", "")
    ],
    "security.inter.broker.protocol": [None, None, None, "PLAINTEXT", "SSL", "SASL_SSL"],
    "controller.listener.names": [
        *("CONTROLLER", "CONTROLLER", "CONTROLLER", "B", "CONTROLLER,B", "controller"),
        *("PLAINTEXT", "CONTROLLER,CONTROLLER"),
    ],
    "controller.quorum.bootstrap.servers": [
        *("localhost:9093", "localhost:9093,a:1", "a", "localhost:x")
    ],
    "controller.quorum.voters": [
        *(None, None, "1@a:1", "2@a:1", "1@a:1,2@b:2", "1@a", "x@a:1", "1@0.0.0.0:1"),
        "1@a:1,1@b:1",
    ],
    "early.start.listeners": [None, None, None, "PLAINTEXT", "CONTROLLER", "A", "plaintext"],
    "controller.quorum.auto.join.enable": [None, None, "true"],
    "sasl.enabled.mechanisms": [None, None, "PLAIN", "PLAIN,GSSAPI", ""],
    "sasl.mechanism.inter.broker.protocol": [None, None, "PLAIN"],
    "log.dirs": ["/data/a"],
}
"""Options of listeners, roles and quorums, which constrain each other."""

OTHERS: dict[str, Sequence[str | None]] = {
    "log.dirs": ["/data/a", "/data/a,/data/b", None, "", "/data/a,/data/a"],
    "log.dir": [None, None, "/data/c", "", "/data/c,/data/d"],
    "cordoned.log.dirs": ["*", "*,/data/a", "/data/a", "/data/c", "", "/tmp/kafka-logs"],
    "log.retention.ms": ["-1", "-5", "0", "1", "1000"],
    "log.retention.minutes": ["-1", "0", "1"],
    "log.retention.hours": ["0", "-1", "1"],
    "log.roll.ms": ["0", "1", "-1"],
    "log.roll.hours": ["1"],
    "log.roll.jitter.ms": ["-1", "0"],
    "max.connections.per.ip": ["0", "1"],
    "max.connections.per.ip.overrides": [
        *("", "127.0.0.1:5", "a:-1", "a:x", "a:1:2", "[::1]:5", "::1:5", ",", "a:5,", "h:1,h:2"),
        *("a b:1", "_x:1", " a : 5 ", "a:+5", "a:2147483648", "1.2.3.4.5:1", ":5", "a:5,,b:6"),
        *("ä:1", "::ffff:1.2.3.4:5", "a:5, b:6 ", "a/b:1", " , a:5", "*:5", "a"),
    ],
    "remote.log.storage.system.enable": ["true"],
    "log.local.retention.ms": ["-1", "-2", "5", "2000"],
    "log.local.retention.bytes": ["-1", "-2", "100", "1", "0"],
    "log.retention.bytes": ["-1", "50", "-7", "0"],
    "log.remote.copy.lag.ms": ["-1", "0", "5", "604800001"],
    "log.cleanup.policy": ["compact", "delete", "compact,delete", ""],
    "group.consumer.assignors": [
        *("range", "uniform,range", "range,range", f"{_ASSIGNOR}.RangeAssignor", "Range"),
        *(f"range,{_ASSIGNOR}.RangeAssignor", f"{_ASSIGNOR}.UniformAssignor,range"),
        *(f"{_ASSIGNOR}.SimpleAssignor", "java.lang.String", "range,foo.Bar"),
    ],
    "group.streams.assignors": [
        *("sticky", "sticky,sticky", _STICKY, f"sticky,{_STICKY}", "foo", "java.lang.String")
    ],
    "group.share.assignors": [
        *("simple", f"{_ASSIGNOR}.SimpleAssignor", "simple,simple", f"{_ASSIGNOR}.RangeAssignor")
    ],
    "group.streams.rack.aware.assignment.tags": ["a", "a,a", "a,b", "a,,b"],
    "group.coordinator.rebalance.protocols": ["classic", "classic,consumer", "Classic", "share"],
    "group.streams.topology.description.plugin.class": [
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",
        "com.example.Plugin",
    ],
}
"""Options that constrain each other, or whose values have a form of their own."""


class Kafka:
    """Apache Kafka's verdicts on the settings of a start."""

    def __init__(self, java: JavaLines):
        self._java = java
        self.options = [Described(**option) for option in json.loads(java.next_line())]

    @classmethod
    def running(cls) -> Iterator[Self]:
        """Run Kafka's parser in a JVM of its own."""
        with JavaLines.running(_SOURCE) as java:
            yield cls(java)

    def verdicts(self, cases: Sequence[Settings]) -> list[str]:
        """ "accepted", or "refused" and the reason, for each of the settings."""
        found = []
        for start in range(0, len(cases), _AT_ONCE):
            chunk = cases[start : start + _AT_ONCE]
            self._java.send("".join(json.dumps(dict(case)) + "\n" for case in chunk))
            found += [self._java.next_line() for _ in chunk]
        return found


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    yield from Kafka.running()


def test_the_same_options_are_known(kafka: Kafka) -> None:
    assert {option.name for option in kafka.options} == set(BROKER)


def test_every_option_has_the_same_bounds(kafka: Kafka) -> None:
    cases = list(singles(kafka.options, wide=_COUNT > 10_000))
    # Each option stays among the cases; bounds and neighbours come first in the full run.
    random.Random(_SEED).shuffle(cases)
    differing = {name for each in DIFFERENCES for name in each.settings if not each.is_accepted}
    differing -= NODE.keys()
    cases = [case for case in cases if differing.isdisjoint(case)][: 2 * _COUNT]
    _compare(kafka, [NODE | case for case in cases])


def test_related_numbers_constrain_each_other_alike(kafka: Kafka) -> None:
    _compare(kafka, [NODE | case for case in several(kafka.options, _COUNT, _SEED)])


def test_listeners_roles_and_quorums_constrain_each_other_alike(kafka: Kafka) -> None:
    _compare(kafka, list(combinations(NETWORK, _COUNT, _SEED)))


def test_other_options_constrain_each_other_alike(kafka: Kafka) -> None:
    chance = random.Random(_SEED)
    cases = []
    for _ in range(_COUNT):
        names = chance.sample(sorted(OTHERS), chance.randint(1, 4))
        values = {name: chance.choice(OTHERS[name]) for name in names}
        cases.append(NODE | {name: value for name, value in values.items() if value is not None})
    _compare(kafka, cases)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: ",".join(each.settings))
def test_no_more_than_the_listed_differences_are_kept(kafka: Kafka, difference: Difference) -> None:
    settings = {name: text for name, text in {**NODE, **difference.settings}.items() if text}
    [theirs] = kafka.verdicts([settings])
    ours = _verdict(settings)
    assert ours.startswith("accepted") == difference.is_accepted, ours
    assert theirs.startswith("accepted") != difference.is_accepted, theirs


def _compare(kafka: Kafka, cases: Sequence[Settings]) -> None:
    different = [
        f"{ {name: text for name, text in case.items() if NODE.get(name) != text} }:\n"
        f"  Apache Kafka: {theirs}\n  wirekafka: {ours}"
        for case, theirs in zip(cases, kafka.verdicts(cases), strict=True)
        if (ours := _verdict(case)).split()[0] != theirs.split()[0]
    ]
    shown = "\n".join(different[:20])
    assert not different, f"{len(different)} of {len(cases)} are different:\n{shown}"


def _verdict(settings: Settings) -> str:
    try:
        refuse_unsupported(BrokerConfig.of(settings))
    except ConfigError as error:
        message = str(error)
        assert error.name in message, f"{message} does not name {error.name}"
        assert "\n" not in message
        return f"refused {message}"
    return "accepted "
