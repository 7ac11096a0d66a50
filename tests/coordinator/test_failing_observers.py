"""A coordinator's observer that keeps failing stops the node instead of being dropped silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.test_late_requests import FIRST, RawProducer
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from wirekafka.coordinator.groups.commands import CommitOffsets, OffsetToCommit
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.runtime.observation import ATTEMPTS

GROUP, TRANSACTION = 0, 1


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create("t", 2)
    for key_type in (GROUP, TRANSACTION):
        broker.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
    yield broker
    broker.stop()


class Failing:
    """An observer with a bug that makes the first `failures` calls fail."""

    def __init__(self, failures: int):
        self.left = failures

    def __call__(self, *_: object) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError("a bug")


def end_a_transaction(kafka: InProcessBroker) -> None:
    producer = RawProducer(kafka, "x")
    producer.versions = FIRST
    producer.start()
    producer.add_partitions()
    producer.produce()
    producer.end(commits=True)


def commit_an_offset(kafka: InProcessBroker) -> None:
    now(kafka.broker.groups.submit("x", CommitOffsets("x", -1, "", [OffsetToCommit("t", 0, 1)])))


def test_the_node_fails_when_markers_of_decided_transactions_cannot_be_started(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka.broker.transactions, "_finish", Failing(10 * ATTEMPTS))
    end_a_transaction(kafka)
    assert kafka.node.failure is None, "it is retried first"
    kafka.clock.advance(60_000)
    assert str(kafka.node.failure) == "a bug"


def test_the_node_fails_when_an_observer_of_a_group_shard_keeps_failing(
    kafka: InProcessBroker,
) -> None:
    kafka.broker.groups.shard_for("x").observe(Failing(ATTEMPTS))
    commit_an_offset(kafka)
    assert kafka.node.failure is None, "it is retried first"
    kafka.clock.advance(60_000)
    assert str(kafka.node.failure) == "a bug"


def test_the_node_continues_when_an_observer_recovers(kafka: InProcessBroker) -> None:
    observer = Failing(ATTEMPTS - 1)
    kafka.broker.groups.shard_for("x").observe(observer)
    commit_an_offset(kafka)
    kafka.clock.advance(60_000)
    assert observer.left == 0 and kafka.node.failure is None
