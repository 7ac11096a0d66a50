"""Deliberate defects of nodes, which the checks of a simulated cluster must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.simulation.cluster.simulation import simulate
from wirekafka.coordinator.markers import MarkerWriter
from wirekafka.log.log import Log
from wirekafka.log.ordered_log import OrderedLog
from wirekafka.log.producers import ProducerStates
from wirekafka.metadata.image import MetadataImage
from wirekafka.replication.follower import Follower
from wirekafka.replication.leader import Leader
from wirekafka.replication.partition import Partition
from wirekafka.replication.raft.changes import VoterChanges
from wirekafka.replication.raft.messages import Leadership
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.replication.raft.roles import Nominee
from wirekafka.replication.replica import Replica

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect, the violations that it may cause, and a seed in which one of them is found."""

    introduce: Callable[[Patch], None]
    kinds: frozenset[str]
    seed: int

    @property
    def name(self) -> str:
        """The name, as a test's id."""
        return self.introduce.__name__

    def is_found_in(self, seed: int) -> bool:
        """Whether a seed finds it."""
        with pytest.MonkeyPatch.context() as patch:
            self.introduce(patch)
            violations = simulate(seed).violations
        return any(violation.split(" ")[0] in self.kinds for violation in violations)


def grant_votes_twice(patch: Patch) -> None:
    """A voter that grants its vote does not remember it."""
    patch.setattr(Raft, "_vote_for", lambda self, candidate, now_ms: None)


def answer_before_the_fsync(patch: Patch) -> None:
    """Followers of the metadata log acknowledge, and its leader counts, what is not synced."""
    patch.setattr(QuorumLog, "synced_offset", property(lambda self: self.end_offset))


def truncate_one_offset_too_far(patch: Patch) -> None:
    """A diverging metadata log loses one record that it has in common with the leader's."""
    truncate_to = OrderedLog.truncate_to
    patch.setattr(
        OrderedLog,
        "truncate_to",
        lambda self, offset, now_ms: truncate_to(self, max(offset - 1, 0), now_ms),
    )


def change_voters_before_the_last_change_is_committed(patch: Patch) -> None:
    """Two changes of the voters may be under way at a time."""

    def change(self: VoterChanges, what: str, now_ms: int) -> Any:
        self._change = None
        return self._log.voters

    patch.setattr(VoterChanges, "_check_ready", change)


def return_to_a_failed_leader(patch: Patch) -> None:
    """A node that asks for votes follows again when another reports the leader that has failed."""
    learn = Raft._learn

    def follow(self: Raft, leadership: Leadership, now_ms: int) -> None:
        learn(self, leadership, now_ms)
        if isinstance(self._role, Nominee) and leadership.epoch == self.log.epoch:
            self._follow_if_possible(leadership, now_ms)

    patch.setattr(Raft, "_learn", follow)


def leave_configs_out_of_snapshots(patch: Patch) -> None:
    """A node that starts from a snapshot knows no configs."""
    patch.setattr(MetadataImage, "_config_records", lambda self: iter(()))


def expand_the_isr_too_early(patch: Patch) -> None:
    """Any follower that fetches joins the ISR, however far behind it is."""
    patch.setattr(Leader, "_has_caught_up", lambda self, follower: self._is_eligible(follower))


def commit_before_the_followers_have_it(patch: Patch) -> None:
    """A leader acknowledges what only it has."""
    patch.setattr(Leader, "_reached_by_all", lambda self, end_offset: end_offset)


def keep_diverging_records(patch: Patch) -> None:
    """A follower does not truncate what the new leader does not have."""
    patch.setattr(Partition, "_divergence", lambda self, wanted: None)


def truncate_replicas_to_the_high_watermark(patch: Patch) -> None:
    """A follower trusts its own high watermark instead of leader epochs (KIP-101)."""

    def truncate(self: Follower, diverging: tuple[int, int], now_ms: int) -> None:
        self._log.truncate_to(max(self._replica.high_watermark - 1, 0), now_ms)
        self._bound_high_watermark()

    patch.setattr(Follower, "_truncate", truncate)


def append_retries_again(patch: Patch) -> None:
    """A leader does not recognize batches that it has already."""
    patch.setattr(ProducerStates, "check", lambda *_: None)


def commit_aborted_transactions(patch: Patch) -> None:
    """Every marker is one of a commit."""
    write = MarkerWriter.write

    def commit(self: Any, ending: Any, where: Any) -> Any:
        object.__setattr__(ending, "marker", ending.marker._replace(is_commit=True))
        return write(self, ending, where)

    patch.setattr(MarkerWriter, "write", commit)


def show_open_transactions(patch: Patch) -> None:
    """Readers of committed records get those of open transactions."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def acknowledge_before_records_are_synced(patch: Patch) -> None:
    """With `flush.messages` 1, replicas acknowledge what a power cut may take away."""
    patch.setattr(Replica, "sync_or_defer", lambda self: True)


def roll_before_a_segment_is_synced(patch: Patch) -> None:
    """The metadata log begins new segments while the one before may be lost."""
    patch.setattr(OrderedLog, "_roll", Log._roll)


def _defects() -> Iterator[Defect]:
    lost = {"LOST_WRITE", "UNSEEN", "INCONSISTENT_OFFSETS", "TWO_BATCHES", "REPLICAS", "DUPLICATE"}
    for introduce, kinds, seed in (
        (grant_votes_twice, {"TWO_LEADERS", "VOTED_TWICE"}, 0),
        (answer_before_the_fsync, {"NOT_SYNCED"}, 0),
        (truncate_one_offset_too_far, {"TRUNCATED", "FAILED", "UNHEALED"}, 0),
        (change_voters_before_the_last_change_is_committed, {"VOTERS"}, 0),
        (return_to_a_failed_leader, {"UNHEALED"}, 0),
        (leave_configs_out_of_snapshots, {"IMAGES"}, 0),
        (expand_the_isr_too_early, lost, 0),
        (commit_before_the_followers_have_it, lost, 0),
        (keep_diverging_records, lost, 0),
        (truncate_replicas_to_the_high_watermark, lost, 0),
        (append_retries_again, {"DUPLICATE"}, 0),
        (commit_aborted_transactions, {"ABORTED_READ", "ABORTED_OFFSETS"}, 0),
        (show_open_transactions, {"ABORTED_READ", "UNCOMMITTED_READ"}, 0),
        (acknowledge_before_records_are_synced, lost, 0),
        (roll_before_a_segment_is_synced, {"START"}, 0),
    ):
        yield Defect(introduce, frozenset(kinds), seed)


DEFECTS = list(_defects())
