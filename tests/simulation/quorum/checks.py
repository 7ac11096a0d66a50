"""What Raft promises, checked whenever the log or the role of a controller has changed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import Any, NamedTuple

from tests.simulation.disk import DirectoryNode, FileNode, SimulatedDisk
from wirekafka.codec.batch import read_header
from wirekafka.replication.raft.messages import Vote

LOG_PATH = "/data/__cluster_metadata-0"
_SEGMENT = re.compile(r"\d{20}\.log")


class Batch(NamedTuple):
    """A batch in a log; batches at the same offset and of the same epoch are equal."""

    base_offset: int
    epoch: int
    end_offset: int
    data: bytes


class KnownLog:
    """The batches of one controller's log, as of the last check."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.generation = -1
        self.end_offset = 0
        self.committed = 0


class RaftChecks(ABC):
    """Compares the logs and roles of the controllers of one history.

    A node has an `id`, a `name`, a `life` that grows with each start, and, while it runs, its
    `log` and `raft`.
    """

    def __init__(self) -> None:
        self.committed: list[Batch] = []
        self.committed_at: dict[int, Batch] = {}
        self._committed_in: dict[Batch, int] = {}
        """The epoch of the leader that committed the batch, by the batches of `committed`."""
        self._votes: dict[tuple[int, int], int] = {}
        self._leaders: dict[int, tuple[int, int]] = {}
        self._batches: dict[tuple[int, int], Batch] = {}
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        self._known: dict[int, KnownLog] = {}
        self._checked_leaders: set[tuple[int, tuple[int, int]]] = set()

    # What subclasses define.

    @abstractmethod
    def trace(self, line: str) -> None:
        """Note an event."""

    @abstractmethod
    def found(self, violation: str) -> None:
        """Note a violation."""

    @abstractmethod
    def disk_of(self, id: int) -> SimulatedDisk:
        """The disk of a voter, also while it is down."""

    @property
    def committed_end(self) -> int:
        return self.committed[-1].end_offset if self.committed else 0

    def opened(self, node: Any) -> None:
        """Forget what was known of the log before a restart."""
        self._known[node.id] = KnownLog()

    def voted(self, node: Any, request: Vote) -> None:
        """A vote was granted, the only one of the node in the epoch, whatever happens between."""
        key = node.id, request.epoch
        if self._votes.setdefault(key, request.candidate.id) != request.candidate.id:
            self.found(f"VOTED_TWICE {node.name} for {request.candidate.id}, {self._votes[key]}")

    def check(self, node: Any) -> None:
        """Check what has changed in a controller's log, high watermark and role."""
        known, log = self._known[node.id], node.log
        if known.generation != log._log._generation or known.end_offset != log.end_offset:
            self._read(node, known)
        committed = log.committed_offset
        if committed < known.committed:
            self.found(f"WENT_BACK {node.name} from {known.committed} to {committed}")
        if committed > log.end_offset:
            self.found(f"OUTSIDE_LOG {node.name}: {committed} is above {log.end_offset}")
        if committed > known.committed:
            self._check_committed(node, known, committed)
            known.committed = committed
        if node.raft.is_leader:
            self._check_leader(node, known)

    def _read(self, node: Any, known: KnownLog) -> None:
        """Compare new batches with those of all logs (the log matching property)."""
        log = node.log
        removed: list[Batch] = []
        if known.generation != log._log._generation:
            known.generation = log._log._generation
            removed = known.batches
            end_offset = log.end_offset
            known.batches = [each for each in known.batches if each.end_offset <= end_offset]
            known.end_offset = known.batches[-1].end_offset if known.batches else 0
            if not known.batches or known.end_offset < log.start_offset:
                known.batches, known.end_offset = [], log.start_offset
            if known.batches and log._log.epochs.latest != known.batches[-1].epoch:
                # Truncated further, and appended to since: read all of it.
                known.batches, known.end_offset = [], log.start_offset
        for data in log._read_log(known.end_offset):
            header = read_header(data)
            batch = Batch(header.base_offset, header.leader_epoch, header.end_offset, bytes(data))
            self._compare(node, batch, known.batches[-1] if known.batches else None)
            known.batches.append(batch)
        known.end_offset = log.end_offset
        kept = set(known.batches) if removed else set()
        for batch in removed:
            # A snapshot that is installed replaces the log, and covers it.
            is_covered = batch.base_offset < log.start_offset
            # A leader of an earlier epoch may still be followed by some.
            is_committed = self._committed_in.get(batch, node.log.epoch + 1) <= node.log.epoch
            if batch not in kept and not is_covered and is_committed:
                self.found(f"TRUNCATED {node.name}: {batch[:2]} was committed")
                return

    def _compare(self, node: Any, batch: Batch, before: Batch | None) -> None:
        key = batch[:2]
        same = self._batches.setdefault(key, batch)
        if same is batch:
            self.trace(f"{node.name} has {batch[:3]}")
            self._check_voters(node, batch)
        elif same.data != batch.data:
            self.found(f"MISMATCH {node.name}: two different batches {key}")
        if before is not None and self._before.setdefault(key, before[:2]) != before[:2]:
            self.found(f"MISMATCH {node.name}: {before[:2]} and {self._before[key]} before {key}")

    def _check_voters(self, node: Any, batch: Batch) -> None:
        """Voters change one at a time, each change after the one before is committed."""
        history = node.log._history
        after, before = history.before(batch.end_offset)[1], history.before(batch.base_offset)[1]
        if after is None or before is None or after == before:
            return
        changed = {each.key for each in after} ^ {each.key for each in before}
        if len(changed) > 1:
            self.found(f"VOTERS {node.name} changes {len(changed)} at {batch.base_offset}")
        earlier = [offset for offset, _ in history._voters if offset < batch.base_offset]
        if node.raft.is_leader and earlier[-1] >= self.committed_end:
            self.found(f"VOTERS {node.name} changes them before {earlier[-1]} is committed")
        self.trace(f"{node.name} has the voters {after.ids}")

    def _check_committed(self, node: Any, known: KnownLog, end: int) -> None:
        first = bisect_left(known.batches, (known.committed,))
        for batch in known.batches[first:]:
            if batch.base_offset >= end:
                break
            if batch.base_offset < self.committed_end:
                if self.committed_at.get(batch.base_offset) != batch:
                    self.found(f"DIVERGENCE {node.name}: committed {batch[:2]} is another one")
                continue
            self.committed.append(batch)
            self.committed_at[batch.base_offset] = batch
            self._committed_in[batch] = node.log.epoch
            self.trace(f"{node.name} commits {batch[:3]}")
            # A leader that commits its own removal has resigned by now. One that was paused may
            # lose its epoch in the turn in which it processes its followers' last fetches.
            leads = node.raft.is_leader or node.raft.role == "resigned"
            if not leads and self._leaders.get(batch.epoch) != (node.id, node.life):
                self.found(f"AHEAD {node.name} follows, but is the first to commit {batch[:2]}")
                continue
            self._check_synced(node, batch)
            # The only voter commits all that it has when it starts, before it leads.
            is_last = batch.end_offset == end and len(node.log.voters) > 1
            if leads and is_last and batch.epoch != node.log.epoch:
                self.found(f"OLD_EPOCH {node.name} commits {batch[:2]} in {node.log.epoch}")

    def _check_synced(self, node: Any, batch: Batch) -> None:
        """A majority of the voters has the batch on the medium."""
        voters = node.log.voters
        holding = sum(_has_synced(self.disk_of(voter.id), batch) for voter in voters)
        if holding < voters.majority:
            self.found(f"NOT_SYNCED {node.name} commits {batch[:2]}, synced by {holding}")

    def _check_leader(self, node: Any, known: KnownLog) -> None:
        epoch, leader = node.log.epoch, (node.id, node.life)
        if self._leaders.setdefault(epoch, leader) != leader:
            self.found(f"TWO_LEADERS {node.name} and {self._leaders[epoch]} in epoch {epoch}")
        elif (epoch, leader) not in self._checked_leaders:
            self._checked_leaders.add((epoch, leader))
            own = {each[:2] for each in known.batches}
            for batch in self.committed:
                if self._committed_in[batch] >= epoch:
                    break  # A candidate that gets its votes late leads an epoch that is over.
                if batch.base_offset >= node.log.start_offset and batch[:2] not in own:
                    self.found(f"LOST {node.name} leads epoch {epoch} without {batch[:2]}")
                    return


def _has_synced(disk: SimulatedDisk, batch: Batch) -> bool:
    if not disk.exists(LOG_PATH):
        return False
    directory = disk.node(LOG_PATH)
    assert isinstance(directory, DirectoryNode)
    found = [name for name in directory.synced if _SEGMENT.fullmatch(name)]
    for name in sorted(found, reverse=True):
        if int(name[:-4]) <= batch.base_offset:
            file = directory.synced[name]
            assert isinstance(file, FileNode)
            return batch.data in file.synced
    return bool(found)
