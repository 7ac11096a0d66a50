"""Deliberate defects of nodes, which the checks of a simulated cluster must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.simulation.cluster.simulation import simulate
from tests.simulation.simulation import Result
from wirekafka.coordinator.transactions.markers import MarkerWriter
from wirekafka.log.directories.ordered_log import OrderedLog
from wirekafka.log.producers import ProducerStates
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.replica import Replica
from wirekafka.replication.raft.leading import Leading
from wirekafka.replication.raft.quorum_log import QuorumLog

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect, the violations that it may cause, and a seed in which one of them is found."""

    introduce: Callable[[Patch], None]
    kinds: frozenset[str]
    seed: int
    simulate: Callable[[int], Result] = simulate

    @property
    def name(self) -> str:
        """The name, as a test's id."""
        return self.introduce.__name__

    def is_found_in(self, seed: int) -> bool:
        """Whether a seed finds it."""
        with pytest.MonkeyPatch.context() as patch:
            self.introduce(patch)
            violations = self.simulate(seed).violations
        return any(violation.split(" ")[0] in self.kinds for violation in violations)


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


def commit_before_the_followers_have_it(patch: Patch) -> None:
    """A leader acknowledges what only it has."""
    patch.setattr(Leader, "_reached_by_all", lambda self, end_offset: end_offset)


def keep_diverging_records(patch: Patch) -> None:
    """A follower does not truncate what the new leader does not have."""
    patch.setattr(Partition, "_divergence", lambda self, wanted: None)


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


def ignore_flush_messages(patch: Patch) -> None:
    """With `flush.messages` 1, replicas acknowledge what a power cut may take away."""

    def never(self: Replica) -> None:
        self.flush_at = 1 << 62

    patch.setattr(Replica, "note_synced", never)


def commit_metadata_without_a_majority(patch: Patch) -> None:
    """The active controller commits what it has synced alone."""

    def advanced(self: Leading, own_synced_end: int) -> int | None:
        if own_synced_end <= max(self.start_offset, self.high_watermark or 0):
            return None
        self.high_watermark = own_synced_end
        return own_synced_end

    patch.setattr(Leading, "advanced", advanced)


def count_observers(patch: Patch) -> None:
    """A majority of the voters' number is enough, whoever they are."""

    def count(self: Leading, own_synced_end: int) -> int | None:
        voters = [self._end_of(each, own_synced_end) for each in self._voters.values()]
        ends = sorted(voters + [each.end_offset for each in self._observers.values()])
        held = ends[-(len(voters) // 2 + 1)] if voters else 0
        if held <= max(self.start_offset, self.high_watermark or 0):
            return None
        self.high_watermark = held
        return held

    patch.setattr(Leading, "advanced", count)


def commit_metadata_of_earlier_epochs(patch: Patch) -> None:
    """A new leader commits records of its predecessors before one of its own."""
    advanced = Leading.advanced

    def commit(self: Leading, own_synced_end: int) -> int | None:
        start_offset, self.start_offset = self.start_offset, -1
        try:
            return advanced(self, own_synced_end)
        finally:
            self.start_offset = start_offset

    patch.setattr(Leading, "advanced", commit)


def append_in_the_first_epoch(patch: Patch) -> None:
    """Every leader of a partition appends in epoch 0, as if it was the first one."""
    assign = Leader.assign

    def assigned(self: Leader) -> None:
        assign(self)
        self._client_append.leader_epoch = 0

    patch.setattr(Leader, "assign", assigned)


def _defects() -> Iterator[Defect]:
    lost = {"LOST_WRITE", "UNSEEN", "INCONSISTENT_OFFSETS", "TWO_BATCHES", "REPLICAS", "DUPLICATE"}
    for introduce, kinds, seed in (
        (answer_before_the_fsync, {"NOT_SYNCED"}, 0),
        (commit_metadata_without_a_majority, {"NOT_SYNCED"}, 0),
        (commit_metadata_of_earlier_epochs, {"OLD_EPOCH"}, 2),
        (count_observers, {"NOT_SYNCED"}, 0),
        (truncate_one_offset_too_far, {"TRUNCATED", "FAILED", "UNHEALED"}, 1),
        (commit_before_the_followers_have_it, lost, 13),
        (keep_diverging_records, lost, 8),
        (append_in_the_first_epoch, {"TWO_APPEND", "TWO_BATCHES"}, 9),
        (append_retries_again, {"DUPLICATE"}, 0),
        (commit_aborted_transactions, {"ABORTED_READ", "ABORTED_OFFSETS"}, 6),
        (show_open_transactions, {"ABORTED_READ", "UNCOMMITTED_READ"}, 0),
        (ignore_flush_messages, lost, 56),
    ):
        yield Defect(introduce, frozenset(kinds), seed)


DEFECTS = list(_defects())
