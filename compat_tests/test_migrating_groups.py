"""Eight members of both protocols in one group, under kills of members and of the broker.

The group begins with classic members, becomes a consumer group (KIP-848) when others join, and a
classic one again when these leave. Every record is seen, and no committed offset moves back.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.group_member import LIBRARIES
from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from compat_tests.test_mixed_groups import (
    JAVA,
    JAVA_ASSIGNED,
    PARTITIONS,
    RECORDS_PER_SECOND,
    Crowd,
    Flow,
    Watch,
    committed,
    crowd_of,
)
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.list_groups import ListGroupsRequest

_ROUNDS = int(os.environ.get("WIREKAFKA_MIXED_ROUNDS", "1"))
"""How often each kind of member fails, and the broker is killed."""
_SEED = int(os.environ.get("WIREKAFKA_MIXED_SEED", "0"))
_SETTINGS = (
    "group.consumer.min.session.timeout.ms=2000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=500",
)
_ASSIGNED = "confluent_assigned"
_CLASSIC = [*(name for name in LIBRARIES if name != "aiokafka"), JAVA]
_NEW = [_ASSIGNED, JAVA_ASSIGNED]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MortalBroker]:
    broker = MortalBroker(tmp_path / "data", *_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.mark.timeout(300 + 200 * _ROUNDS)
def test_a_group_migrates_and_loses_members_and_brokers(
    broker: MortalBroker, unique: str, java_tools: JavaTools
) -> None:
    chance = random.Random(_SEED)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(unique, PARTITIONS)])[unique].result(30)
    with crowd_of(broker.bootstrap, unique, unique, java_tools) as crowd:
        flow, watch = Flow(broker.bootstrap, unique), Watch(broker.bootstrap, unique)
        _join(crowd, [*_CLASSIC, "confluent"])
        assert _type_of(broker, unique) == "classic"
        _join(crowd, [*_NEW, _ASSIGNED, "kafka_python"])
        assert len(crowd.members) == 8
        eventually(lambda: _type_of(broker, unique) == "consumer", 60)
        for _ in range(_ROUNDS):
            for library in (*_CLASSIC, *_NEW):
                old = next(each for each in crowd.members if each.library == library)
                crowd.lose(old, crash=chance.random() < 0.7)
                _join(crowd, [library])
            _kill(broker, unique)
            _go_on(crowd)
        for member in [each for each in crowd.members if each.library in _NEW]:
            crowd.lose(member, crash=chance.random() < 0.3)
        eventually(lambda: _type_of(broker, unique) == "classic", 60)
        _go_on(crowd)

        written = flow.stop()
        eventually(lambda: written.items() <= crowd.seen.items(), 90)
        assert crowd.seen == written, "a record that nobody wrote"
        ends = {partition: offset + 1 for partition, offset in sorted(written)}
        eventually(lambda: committed(broker.bootstrap, unique) == ends, 60)
        watch.stop()
        assert watch.steps_back == []
        assert all(member.process.poll() is None for member in crowd.members)


def _join(crowd: Crowd, libraries: list[str]) -> None:
    """Add members, and wait until each was assigned something."""
    joined = [crowd.join(library) for library in libraries]
    for member in joined:
        eventually(lambda member=member: member.count, 90)


def _go_on(crowd: Crowd) -> None:
    """Wait until records have been consumed for some seconds."""
    seen = len(crowd.seen)
    eventually(lambda: len(crowd.seen) > seen + 3 * RECORDS_PER_SECOND, 90)


def _kill(broker: MortalBroker, group: str) -> None:
    before = committed(broker.bootstrap, group)
    broker.kill()
    broker.start()
    after = committed(broker.bootstrap, group)
    assert all(after[partition] >= offset for partition, offset in before.items())


def _type_of(broker: MortalBroker, group: str) -> str | None:
    wire = Wire.to(broker.bootstrap)
    listed = wire.ask(ListGroupsRequest(states_filter=[], types_filter=[]), 5)
    wire.close()
    return next((each.group_type for each in listed.groups if each.group_id == group), None)
