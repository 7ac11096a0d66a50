"""Hundreds of seeds pass, each is repeatable, and defects of replicas are detected."""

from __future__ import annotations

from typing import Any

import pytest

from tests.repetitions import seeds
from tests.simulation.replication.simulation import simulate
from tests.simulation.seeds import assert_every_seed_passes, assert_seeds_are_repeatable
from wirekafka.log import fetched_batches as received
from wirekafka.log.log import Log
from wirekafka.log.producers import ProducerStates
from wirekafka.replication.partition.follower import ReplicaFollower
from wirekafka.replication.partition.leader import Leader

SEEDS = seeds("WIREKAFKA_REPLICATION_SEEDS", usual=30, thorough=1_000)


@pytest.mark.timeout(1_800)
def test_every_seed_keeps_what_kafka_promises() -> None:
    assert_every_seed_passes(range(SEEDS), simulate, "--replication")


def test_the_same_seed_is_the_same_history() -> None:
    assert_seeds_are_repeatable(range(7_000, 7_004), "tests.simulation.replication.simulation")


def test_a_leader_that_commits_alone_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "_reached_by_all", lambda self, end_offset: end_offset)
    assert "NOT_IN_SYNC" in _kinds_found(20)


def test_a_leader_that_adds_followers_too_early_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Leader, "_has_caught_up", lambda self, follower: self._is_eligible(follower)
    )
    wanted = {"NOT_IN_SYNC", "LOST", "AHEAD", "DIVERGENCE"}
    assert any(_kinds(seed) & wanted for seed in range(40))


def test_followers_that_keep_diverging_records_are_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReplicaFollower, "_truncate", lambda *_: None)
    assert _kinds_found(20) & {"STUCK", "DIVERGENCE"}


def test_followers_that_keep_epochs_without_batches_are_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Log, "_forget_empty_epochs", lambda self: None)
    assert _kinds_found(40) == {"STUCK"}


def test_followers_that_keep_no_producer_states_are_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay = ProducerStates.replay

    def forget(self: ProducerStates, header: Any, batch: Any) -> Any:
        if batch and not header.is_control:
            self.end_offset = header.end_offset
            return None
        return replay(self, header, batch)

    monkeypatch.setattr(ProducerStates, "replay", forget)
    monkeypatch.setattr(received, "append_usual", lambda *_: False)  # It does not replay.
    assert _kinds_found(20) & {"PRODUCERS", "DUPLICATE", "GAP"}


def _kinds_found(seeds: int) -> set[str]:
    """The kinds of violations of the first seed that has any, among this number of seeds."""
    return next(filter(None, map(_kinds, range(seeds))), set())


def _kinds(seed: int) -> set[str]:
    return {violation.split(" ")[0] for violation in simulate(seed).violations}
