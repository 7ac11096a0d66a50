"""Registries that are killed: no id is given twice, and no acknowledged subject is lost.

The cluster is the broker under test, and Apache Kafka.
"""

from __future__ import annotations

import time

import pytest

from compat_tests.conftest import RunningBroker
from compat_tests.registry_processes import RegistryProcess, Writers, schema_of, stored_texts
from tests.eventually import eventually
from tests.registry.servers import ask
from tests.repetitions import repetitions

KILLS = repetitions("WIREKAFKA_REGISTRY_KILLS", usual=1, thorough=20)
WRITERS = 50
ACKNOWLEDGED_BETWEEN = 100


@pytest.fixture(params=["broker", "apache_kafka"])
def cluster(request: pytest.FixtureRequest) -> RunningBroker:
    found: RunningBroker = request.getfixturevalue(request.param)
    return found


def check(cluster: RunningBroker, url: str, writers: Writers) -> None:
    """What was acknowledged is there, under its id; no id has two texts."""
    assert writers.acknowledged
    texts = stored_texts(cluster.bootstrap)
    assert {id: each for id, each in texts.items() if len(each) > 1} == {}
    for subject, id in writers.acknowledged.items():
        assert texts[id] == {schema_of(subject)["schema"]}
    ids = list(writers.acknowledged.values())
    assert len(set(ids)) == len(ids)
    listed = set(ask(url, "GET", f"/subjects?subjectPrefix={writers.prefix}").body)
    assert set(writers.acknowledged) <= listed


def more(writers: Writers) -> None:
    """Wait until more schemas are acknowledged."""
    wanted = len(writers.acknowledged) + ACKNOWLEDGED_BETWEEN
    eventually(lambda: len(writers.acknowledged) >= wanted, timeout_s=90)


def test_leaders_are_killed_under_fifty_writers(cluster: RunningBroker, unique: str) -> None:
    instances = [RegistryProcess(cluster.bootstrap) for _ in range(2)]
    writers = Writers(unique, [each.url for each in instances])
    writers.start(WRITERS)
    try:
        for _ in range(KILLS):
            more(writers)
            leader = eventually(lambda: next((each for each in instances if each.leads), None))
            leader.kill()
            more(writers)
            leader.start()
        more(writers)
    finally:
        writers.stop()
    try:
        for each in instances:
            eventually(lambda each=each: check(cluster, each.url, writers) is None)
    finally:
        for each in instances:
            each.stop()


def test_a_single_registry_is_killed_while_it_registers(broker: RunningBroker, unique: str) -> None:
    registry = RegistryProcess(broker.bootstrap)
    writers = Writers(unique, [registry.url])
    writers.start(8)
    try:
        for _ in range(KILLS):
            more(writers)
            registry.kill()
            registry.start()
        more(writers)
    finally:
        writers.stop()
    try:
        check(broker, registry.url, writers)
        began_s = time.monotonic()
        assert ask(registry.url, "GET", "/subjects").status == 200
        assert time.monotonic() - began_s < 5
    finally:
        registry.stop()
