"""A share partition: the delivery states of a partition's records in one share group (KIP-932)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from wirekafka.errors import Error, KafkaError
from wirekafka.replication.share.in_flight import (
    Batch,
    DeadLetters,
    GivenUp,
    InFlight,
    RecordState,
    Run,
    StateChange,
    StoredRun,
)
from wirekafka.replication.share.limits import ShareLimits


class SharePartition:
    """The state that the leader of a partition keeps for one share group; time is an argument.

    All offsets below `start_offset` are done with; all below `end_offset` have been acquired at
    least once, or passed over. Methods that change stored states return a `StateChange`: the caller
    stores `change.stored`, and then calls `commit` or `roll_back`. Until then its records are
    neither delivered nor acknowledged again.
    """

    def __init__(self, limits: ShareLimits, leader_epoch: int = -1):
        self.limits = limits
        """The present limits of the group; the owner keeps them up to date."""
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self.start_offset = 0
        self.end_offset = 0
        self.in_flight = InFlight()
        self.complete_count = 0
        """How many offsets from `start_offset` on are never delivered again (KIP-1226)."""
        self.gap_offset: int | None = None
        """Up to the end of the loaded state, offsets from here on that it left out are delivered:
        they were acquired from an earlier leader, which stored nothing about them."""
        self._loaded_end_offset = 0
        self._may_have_available = False
        self._locks: list[tuple[int, int]] = []
        """Heap of (deadline in ms, first offset); entries may be outdated."""

    # Loading.

    def load(self, state_epoch: int, start_offset: int, stored: Iterable[StoredRun]) -> None:
        """Take over a stored state, its runs in offset order.

        The caller resumes with `unwritten`, which an earlier leader may not have written. Raises
        KafkaError(UNKNOWN_SERVER_ERROR) if a run begins below the start offset.
        """
        self.state_epoch = state_epoch
        self.start_offset = self.end_offset = expected = start_offset
        for first, last, state, deliveries in stored:
            if first < start_offset:
                raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
            if first > expected and self.gap_offset is None:
                self.gap_offset = expected
            run = Run(first, last + 1, RecordState(state), deliveries)
            self.in_flight.add(Batch(run))
            self._count(run, 1)
            expected = last + 1
        if not self.in_flight:
            return
        self.end_offset = self._loaded_end_offset = expected
        self._may_have_available = True
        self.advance()

    def unwritten(self) -> list[DeadLetters]:
        """Return the dead letters in a loaded state; their reason is not stored, but inferred."""
        exhausted = self.limits.max_deliveries
        return [
            DeadLetters(
                run.first,
                run.end - 1,
                run.deliveries,
                GivenUp.EXHAUSTED if run.deliveries >= exhausted else GivenUp.REJECTED,
            )
            for batch in self.in_flight
            for run in batch.runs
            if run.state is RecordState.ARCHIVING
        ]

    @property
    def has_gaps(self) -> bool:
        """Whether offsets that the loaded state left out remain to be delivered."""
        return self.gap_offset is not None and self._loaded_end_offset == self.end_offset

    def close_gap(self, offset: int) -> None:
        """Note that no gap of the loaded state remains below an offset."""
        if self.gap_offset is None:
            return
        is_within = self.has_gaps and offset < self._loaded_end_offset
        self.gap_offset = offset if is_within else None

    # Positions.

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is in flight at or above the start offset."""
        return not self.in_flight or self.start_offset >= self.in_flight.last.end

    @property
    def locked_count(self) -> int:
        """The offsets that count towards the limit of locked records."""
        return max(self.end_offset - self.start_offset, 0) if self.in_flight else 0

    def next_fetch_offset(self) -> int:
        """The first offset to be acquired next: an available record, or the end offset."""
        if self._may_have_available and not self.is_exhausted:
            offset = self._first_available()
            if offset is not None:
                return offset
        self._may_have_available = False
        return self.end_offset

    def can_acquire(self) -> bool:
        """Whether the limit of locked records permits an acquisition."""
        return (
            self.next_fetch_offset() != self.end_offset
            or self.locked_count < self.limits.max_locked_records
        )

    def note_available(self) -> None:
        """Search for available records at the next fetch."""
        self._may_have_available = True

    def _first_available(self) -> int | None:
        gap_offset = self.gap_offset if self.has_gaps else None
        for batch in self.in_flight:
            if gap_offset is not None:
                if batch.first > gap_offset:
                    return gap_offset
                gap_offset = max(batch.end, gap_offset)
            for run in batch.runs:
                if run.is_available:
                    return run.first
        return None

    # Locks.

    def lock(self, run: Run, member: str, now_ms: int) -> None:
        """Have records locked by a member, for the group's lock duration from now on."""
        run.member = member
        self.extend_lock(run, now_ms)

    def extend_lock(self, run: Run, now_ms: int) -> None:
        """Let a lock expire after the group's lock duration from now on."""
        run.locked_until_ms = deadline_ms = now_ms + self.limits.lock_duration_ms
        locks = self._locks
        heapq.heappush(locks, (deadline_ms, run.first))
        # Locks of records that are done with are dropped early: they would pile up otherwise.
        while locks and locks[0][1] < self.start_offset and not self._is_locked(locks[0][1]):
            heapq.heappop(locks)

    def deadline(self) -> int | None:
        """A time no later than the first expiry of a lock; None without locks."""
        return self._locks[0][0] if self._locks else None

    def expire(self, now_ms: int) -> list[StoredRun]:
        """Release the records whose locks have expired, and return the change to store.

        The new states hold even if they cannot be stored; call `advance` after the attempt, and
        write the change's dead letters.
        """
        change = StateChange()
        locks = self._locks
        while locks and locks[0][0] <= now_ms:
            _, offset = heapq.heappop(locks)
            batch = self.in_flight.floor(offset)
            if batch is None or batch.end <= offset:
                continue
            for run in self._runs_by_start(batch):
                if (
                    run.state is RecordState.ACQUIRED
                    and run.locked_until_ms is not None
                    and run.locked_until_ms <= now_ms
                ):
                    run.state = self._released(run)
                    run.member = run.locked_until_ms = None
                    change.note(run)
                    self._count(run, 1)
                    self._may_have_available = True
        return change.stored

    def end_locks(self, now_ms: int) -> int:
        """Let all locks that members hold expire now; returns how many records they lock."""
        size = 0
        for batch in self.in_flight:
            for run in batch.runs:
                if run.state is RecordState.ACQUIRED:
                    run.locked_until_ms = now_ms
                    heapq.heappush(self._locks, (now_ms, run.first))
                    size += run.size
        return size

    def _is_locked(self, offset: int) -> bool:
        batch = self.in_flight.floor(offset)
        return batch is not None and offset < batch.end

    # Changes.

    def release(self, member: str) -> StateChange:
        """Make the records available that a member has acquired: its session ends."""
        change = StateChange()
        for batch in self.in_flight:
            if not any(run.member == member for run in batch.runs):
                continue
            for run in self._runs_by_start(batch):
                if run.member == member:
                    self.begin(change, run, RecordState.AVAILABLE)
        return change

    def begin(self, change: StateChange, run: Run, state: RecordState) -> None:
        """Begin to change acquired records; archive records that may not be delivered again."""
        if state is RecordState.AVAILABLE:
            state = self._released(run)
        if state is RecordState.ARCHIVING:
            change.give_up(run, GivenUp.EXHAUSTED)
        else:
            change.begin(run, state)
        self._count(run, 1)

    def reject(self, change: StateChange, run: Run) -> None:
        """Begin to archive acquired records that a member rejects."""
        if self.limits.keeps_dead_letters:
            change.give_up(run, GivenUp.REJECTED)
        else:
            self.begin(change, run, RecordState.ARCHIVED)

    def archive_written(self, letters: DeadLetters) -> StoredRun:
        """Archive dead letters that are written or cannot be written; returns the change to store.

        Call `advance` after the attempt to store it.
        """
        first, last, deliveries, _ = letters
        self.archive(first, last + 1, RecordState.ARCHIVING)
        return StoredRun(first, last, RecordState.ARCHIVED, deliveries)

    def commit(self, change: StateChange) -> bool:
        """Complete a change that was stored; returns whether `start_offset` moved."""
        for run in change.runs:
            run.change = run.before = run.locked_until_ms = None
            if run.state is RecordState.AVAILABLE:
                self._may_have_available = True
        for batch in self._batches_of(change.runs):
            batch.join()
        return self.advance()

    def roll_back(self, change: StateChange, now_ms: int) -> None:
        """Undo a change that was not stored. Locks that expired meanwhile remain released."""
        for run in change.runs:
            before, run.change, run.before = run.before, None, None
            if run.is_dropped:
                run.locked_until_ms = None
                continue
            assert before is not None
            self._count(run, -1)
            run.state, run.member = before
            if run.locked_until_ms is not None and run.locked_until_ms <= now_ms:
                is_last = run.deliveries >= self.limits.max_deliveries
                run.state = RecordState.ARCHIVED if is_last else RecordState.AVAILABLE
                run.member = run.locked_until_ms = None
                self._count(run, 1)
            if run.state is RecordState.AVAILABLE:
                self._may_have_available = True

    def _batches_of(self, runs: Sequence[Run]) -> Iterable[Batch]:
        """The split batches that the runs are in, each once."""
        end = -1
        for run in sorted(runs, key=lambda run: run.first):
            if run.first < end:
                continue
            batch = self.in_flight.floor(run.first)
            if batch is not None and batch.is_split:
                end = batch.end
                yield batch

    def _released(self, run: Run) -> RecordState:
        """The state of records whose acquisition ends without an acknowledgement."""
        if run.first < self.start_offset:
            return RecordState.ARCHIVED
        if run.deliveries < self.limits.max_deliveries:
            return RecordState.AVAILABLE
        is_kept = self.limits.keeps_dead_letters
        return RecordState.ARCHIVING if is_kept else RecordState.ARCHIVED

    def _runs_by_start(self, batch: Batch) -> list[Run]:
        """All runs of a batch, each either below the start offset or not."""
        if not batch.first < self.start_offset < batch.end:
            return batch.runs
        if not batch.is_split and batch.whole.state is not RecordState.ACQUIRED:
            return batch.runs
        batch.is_split = True
        return batch.between(batch.first, self.start_offset) + batch.between(
            self.start_offset, batch.end
        )

    # The start offset.

    def advance(self) -> bool:
        """Move `start_offset` beyond records that are never delivered again; whether it moved."""
        floor = self.in_flight.floor(self.start_offset)
        if floor is None:
            return False
        if self.start_offset < floor.end and not floor.at(self.start_offset).is_settled:
            return False
        done_offset = self._done_offset()
        if done_offset is None:
            return False
        if done_offset == self.in_flight.last.end:
            self.in_flight.clear()
            self.start_offset = self.end_offset = done_offset
            self.complete_count = 0
            return True
        last = self.in_flight.floor(done_offset - 1)
        assert last is not None
        if done_offset == last.end:
            following = self.in_flight.after(last.first)
            assert following is not None
            start_offset = max(following.first, self.start_offset)
            if self.has_gaps and self.gap_offset is not None:
                start_offset = min(self.gap_offset, start_offset)
            self._move_start(start_offset)
            self.in_flight.remove_below(last.end)
        else:
            self._move_start(max(done_offset, self.start_offset))
            self.in_flight.remove_below(last.first)
        return True

    def _done_offset(self) -> int | None:
        """The end of the leading records that are done with, gaps between batches included."""
        done_offset = None
        for batch in self.in_flight:
            if self.has_gaps and self.gap_offset is not None and batch.end > self.gap_offset:
                break
            for run in batch.runs:
                if not run.is_settled:
                    return done_offset
                done_offset = run.end
        return done_offset

    def move_log_start(self, offset: int) -> None:
        """Note that the log now starts at an offset: available records below it are archived.

        Acquired records stay acquired until they are acknowledged or their lock expires.
        """
        if offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = offset
            self.complete_count = 0
            return
        if self.archive(self.start_offset, offset, RecordState.AVAILABLE):
            self._may_have_available = True
        self._move_start(offset)
        self.end_offset = max(self.end_offset, offset)

    def archive(self, first: int, end: int, state: RecordState) -> bool:
        """Archive the records of a range that are in a state; returns whether there were any."""
        found = False
        for batch in self.in_flight.overlapping(first, end):
            if batch.end <= first:
                continue
            runs = batch.runs
            if batch.is_split or not batch.is_within(first, end):
                if not batch.is_split and batch.whole.state is not state:
                    continue
                batch.is_split = True
                runs = batch.between(max(first, batch.first), min(end, batch.end))
            for run in runs:
                if run.state is state:
                    run.archive()
                    self._count(run, 1)
                    found = True
        return found

    def _move_start(self, offset: int) -> None:
        """Move the start offset, and no longer count the completed records below it."""
        before, self.start_offset = self.start_offset, offset
        if offset <= before:
            return
        for batch in self.in_flight.overlapping(before, offset):
            for run in batch.runs:
                if run.state.is_final:
                    size = min(run.end, offset) - max(run.first, before)
                    self.complete_count -= max(size, 0)

    def _count(self, run: Run, sign: int) -> None:
        if run.state.is_final:
            size = run.end - max(run.first, self.start_offset)
            self.complete_count += sign * max(size, 0)
