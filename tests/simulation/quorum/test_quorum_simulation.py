"""Hundreds of seeds of a quorum pass, each is repeatable, and defects of Raft are detected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.repetitions import seeds
from tests.simulation.quorum.simulation import simulate
from tests.simulation.seeds import assert_every_seed_passes, assert_seeds_are_repeatable
from wirekafka.log.log import Log
from wirekafka.replication.raft.changes import VoterChanges
from wirekafka.replication.raft.election import Election
from wirekafka.replication.raft.leading import Leading
from wirekafka.replication.raft.messages import LeaderAndEpoch
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.roles import Nominee

SEEDS = seeds("WIREKAFKA_QUORUM_SEEDS", usual=30, thorough=1_000)


@pytest.mark.timeout(1_800)
def test_every_seed_keeps_what_raft_promises() -> None:
    assert_every_seed_passes(range(SEEDS), simulate, "--quorum")


def test_the_same_seed_is_the_same_history() -> None:
    assert_seeds_are_repeatable(range(7_000, 7_003), "tests.simulation.quorum.simulation")


def _forget_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that grants its vote does not remember it, and grants it again."""
    monkeypatch.setattr(Raft, "_vote_for", lambda self, candidate, now_ms: None)


def _forget_votes_at_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Election.load

    def forget(self: Election) -> None:
        load(self)
        self.elected = replace(self.elected, voted=None)

    monkeypatch.setattr(Election, "load", forget)


def _answer_before_the_state_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the write of epoch and vote, which comes later."""
    monkeypatch.setattr(Election, "is_durable", property(lambda self: True))
    monkeypatch.setattr(Election, "when_durable", lambda self, callback: callback(None))


def _answer_before_the_log_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers fetch on, and the leader commits, before the fsync."""
    monkeypatch.setattr(QuorumLog, "synced_offset", property(lambda self: self.end_offset))


def _commit_records_of_earlier_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    advanced = Leading.advanced

    def commit(self: Leading, own_synced_end: int) -> int | None:
        start_offset, self.start_offset = self.start_offset, -1
        try:
            return advanced(self, own_synced_end)
        finally:
            self.start_offset = start_offset

    monkeypatch.setattr(Leading, "advanced", commit)


def _truncate_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    truncate_to = Log.truncate_to
    monkeypatch.setattr(
        Log,
        "truncate_to",
        lambda self, offset, now_ms: truncate_to(self, max(offset - 1, 0), now_ms),
    )


def _keep_diverging_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumLog, "diverging", lambda self, offset, epoch: None)


def _count_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A majority of the voters' number is enough, whoever they are."""

    def count(self: Leading, own_synced_end: int) -> int | None:
        voters = [self._end_of(each, own_synced_end) for each in self._voters.values()]
        ends = sorted(voters + [each.end_offset for each in self._observers.values()])
        held = ends[-(len(voters) // 2 + 1)] if voters else 0
        if held <= max(self.start_offset, self.high_watermark or 0):
            return None
        self.high_watermark = held
        return held

    monkeypatch.setattr(Leading, "advanced", count)


def _change_voters_before_the_last_change_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(self: VoterChanges, what: str, now_ms: int) -> Any:
        self._change = None
        return self._log.voters

    monkeypatch.setattr(VoterChanges, "_check_ready", change)


def _lead_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that restarts goes on with its epoch, whose unsynced records it has lost."""
    start = Raft.start

    def lead(self: Raft, now_ms: int) -> None:
        start(self, now_ms)
        if self._election.elected.leader_id == self._own.id and not self.is_leader:
            self._become_leader([self._own.id], now_ms)

    monkeypatch.setattr(Raft, "start", lead)


def _return_to_a_failed_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that asks for votes follows again when another reports the leader that has failed."""
    learn = Raft._learn

    def follow(self: Raft, leadership: LeaderAndEpoch, now_ms: int) -> None:
        learn(self, leadership, now_ms)
        if isinstance(self._role, Nominee) and leadership.epoch == self.log.epoch:
            self._follow_if_possible(leadership, now_ms)

    monkeypatch.setattr(Raft, "_learn", follow)


@pytest.mark.parametrize(
    ("defect", "kinds"),
    [
        (_forget_votes, {"TWO_LEADERS", "VOTED_TWICE"}),
        (_forget_votes_at_restarts, {"VOTED_TWICE"}),
        (_answer_before_the_state_is_synced, {"VOTED_TWICE"}),
        (_answer_before_the_log_is_synced, {"NOT_SYNCED"}),
        (_commit_records_of_earlier_epochs, {"OLD_EPOCH"}),
        (_truncate_too_far, {"TRUNCATED"}),
        (_keep_diverging_records, {"MISMATCH", "NOT_SYNCED", "STUCK"}),
        (_count_observers, {"NOT_SYNCED"}),
        (_change_voters_before_the_last_change_is_committed, {"VOTERS"}),
        (_lead_after_a_restart, {"TWO_LEADERS"}),
        (_return_to_a_failed_leader, {"STUCK"}),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else None,
)
def test_a_defect_is_detected(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None], kinds: set[str]
) -> None:
    defect(monkeypatch)
    assert any(_kinds(seed) & kinds for seed in range(200))


def _kinds(seed: int) -> set[str]:
    return {violation.split(" ")[0] for violation in simulate(seed).violations}
