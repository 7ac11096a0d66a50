"""Acquisition of fetched records by a member of a share group (KIP-932, KIP-1206)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.codec.batch import Buffer, batches
from wirekafka.log.slice import LogSlice
from wirekafka.replication.share.in_flight import Batch, RecordState, Run
from wirekafka.replication.share.partition import SharePartition


class AcquiredRun(NamedTuple):
    """Acquired records as the response reports them; `last` is inclusive."""

    first: int
    last: int
    deliveries: int


@dataclass(slots=True, frozen=True)
class Acquisition:
    """A member's request to a partition.

    `max_records`: the number of records that the response may still have. `is_exact`: acquire no
    more records than that number, instead of whole batches (record-limit mode).
    """

    member: str
    max_records: int
    batch_size: int
    is_exact: bool = False
    fetch_offset: int = 0


class FetchedBatches:
    """The offsets and positions of the complete batches in a fetched buffer, in order."""

    __slots__ = ("data", "ends", "firsts", "positions")

    def __init__(self, data: Buffer):
        self.data = data
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.positions: list[int] = []
        self._find(0)

    @classmethod
    def read(cls, records: LogSlice, partition: SharePartition, max_records: int) -> FetchedBatches:
        """Read the batches among which `acquire` finds `max_records`, and none that follow them.

        A slice may have all the log after them. Raises OSError.
        """
        data = bytearray()
        fetched = cls(data)
        known_end = max(partition.start_offset, partition.end_offset)
        for piece in records.pieces():
            data += piece
            fetched._find(fetched._end_position if fetched else 0)
            # A single batch is returned with the incomplete batch that may follow.
            if len(fetched.firsts) > 1 and (
                fetched.end >= max(fetched.first, known_end) + max_records
            ):
                break
        return fetched

    def _find(self, position: int) -> None:
        """Note the complete batches from a position on."""
        for at, header in batches(self.data, position):
            self.firsts.append(header.base_offset)
            self.ends.append(header.end_offset)
            self.positions.append(at)

    def __bool__(self) -> bool:
        return bool(self.firsts)

    @property
    def first(self) -> int:
        return self.firsts[0]

    @property
    def end(self) -> int:
        return self.ends[-1]

    def end_around(self, offset: int) -> int:
        """The end offset of the batch with `offset - 1`; `offset` itself if none has it."""
        index = bisect_right(self.firsts, offset - 1) - 1
        if index >= 0 and offset <= self.ends[index]:
            return self.ends[index]
        return offset

    def slice(self, first: int, last: int) -> Buffer:
        """The bytes of the batches with the offsets from `first` to `last`, inclusive."""
        if len(self.firsts) == 1:
            return self.data
        start = max(bisect_right(self.firsts, first) - 1, 0)
        stop = max(bisect_right(self.firsts, last), start + 1)
        if start == 0 and stop == len(self.firsts) and self._is_whole:
            return self.data
        end = self.positions[stop] if stop < len(self.positions) else self._end_position
        return memoryview(self.data)[self.positions[start] : end]

    @property
    def _is_whole(self) -> bool:
        return self._end_position == len(self.data)

    @property
    def _end_position(self) -> int:
        """Where the last complete batch ends."""
        at = self.positions[-1]
        return at + 12 + int.from_bytes(memoryview(self.data)[at + 8 : at + 12], "big")


def acquire(
    partition: SharePartition, fetched: FetchedBatches, wanted: Acquisition, now_ms: int
) -> list[AcquiredRun]:
    """Lock fetched records for a member, as many as its request and the group's limits allow.

    `max_records` is exceeded where a batch that is acquired for the first time has more records,
    except in record-limit mode. The result is in offset order.
    """
    if wanted.max_records <= 0 or not fetched or fetched.end <= partition.start_offset:
        return []
    end, max_records = _room(partition, fetched, wanted)
    if max_records <= 0:
        return []
    _archive_compacted(partition, wanted.fetch_offset, fetched.first)
    if end <= fetched.first:
        # Only records that were acquired before are allowed, and the log has none of them any more.
        return []
    return _Acquiring(partition, fetched, wanted, now_ms).acquire(end, max_records)


def _room(
    partition: SharePartition, fetched: FetchedBatches, wanted: Acquisition
) -> tuple[int, int]:
    """The offset up to which records may be acquired, and how many records."""
    free = partition.limits.max_locked_records - partition.locked_count
    max_records = min(wanted.max_records, free)
    if max_records > 0 or wanted.fetch_offset >= partition.end_offset:
        return fetched.end, max_records
    # Records that were released in between count towards the limit already.
    end = min(fetched.end, partition.end_offset)
    return end, min(wanted.max_records, partition.end_offset - wanted.fetch_offset)


def _archive_compacted(partition: SharePartition, fetch_offset: int, first: int) -> None:
    """Archive available records that the log no longer has: the read skipped them."""
    if fetch_offset < first and partition.archive(fetch_offset, first, RecordState.AVAILABLE):
        partition.note_available()


class _Acquiring:
    """One acquisition in progress."""

    __slots__ = ("_acquired", "_count", "_fetched", "_left", "_now_ms", "_partition", "_wanted")

    def __init__(
        self, partition: SharePartition, fetched: FetchedBatches, wanted: Acquisition, now_ms: int
    ):
        self._partition = partition
        self._fetched = fetched
        self._wanted = wanted
        self._now_ms = now_ms
        self._acquired: list[AcquiredRun] = []
        self._count = 0
        self._left = 0

    def acquire(self, end: int, max_records: int) -> list[AcquiredRun]:
        """Acquire the records below `end`."""
        partition, self._left = self._partition, max_records
        first = base = self._fetched.first
        floor = partition.in_flight.floor(base)
        if floor is None:
            base = max(base, partition.start_offset)
        elif base < floor.end:
            base = floor.first
        known = partition.in_flight.starting_in(min(first, base), end)
        if not known:
            self._acquire_new(base, end)
            return self._acquired
        self._acquire_known(known, base, end)
        if self._left > 0 and known[-1].end < end:
            self._acquire_new(known[-1].end, end)
        if self._acquired:
            partition.close_gap(self._acquired[-1].last + 1)
        return self._acquired

    def _acquire_known(self, known: Sequence[Batch], base: int, end: int) -> None:
        """Acquire available records of batches in flight, and gaps that remain between them."""
        partition, gap_offset = self._partition, base
        for batch in known:
            if self._left <= 0:
                return
            if partition.has_gaps:
                if gap_offset < batch.first:
                    self._acquire_new(gap_offset, batch.first)
                gap_offset = batch.end
                if self._left <= 0:
                    return
            is_throttled = self._is_throttled(batch, end)
            if is_throttled and self._acquired:
                self._left = 0
                return
            count = self._acquire_from(batch, end, is_throttled)
            if is_throttled and count:
                self._left = 0
                return

    def _acquire_from(self, batch: Batch, end: int, is_throttled: bool) -> int:
        """Acquire a batch, or some of its records; returns how many records."""
        is_partial = (
            is_throttled
            or not batch.is_within(self._fetched.first, end)
            or (self._wanted.is_exact and batch.size > self._left)
        )
        if batch.is_split or is_partial:
            if not batch.is_split and not batch.whole.is_available:
                return 0
            batch.is_split = True
            return self._acquire_records(batch, end)
        run = batch.whole
        if not run.is_available:
            return 0
        self._lock(run)
        self._report(run.first, run.end, run.deliveries)
        return run.size

    def _acquire_records(self, batch: Batch, end: int) -> int:
        """Acquire available records of a split batch, fewer if they were delivered often.

        Records are acquired one by one: a record due for its last delivery is delivered alone.
        """
        limits = self._partition.limits
        most = self._left if self._wanted.is_exact else batch.size
        acquired: list[Run] = []
        count, is_limited = 0, False
        for run in self._within(batch, end):
            if not run.is_available:
                continue
            is_last = limits.max_deliveries > 2 and run.deliveries == limits.max_deliveries - 1
            if is_last and count:
                break
            halvings = run.deliveries - limits.throttled_deliveries + 1
            if halvings > 0 and not is_limited:
                is_limited = True
                # Counted from the first record of the batch, even if others were acquired.
                portion = max(1, batch.size >> halvings)
                if portion > count:
                    most = min(most, portion)
            size = 1 if is_last else min(run.size, most - count)
            run = batch.isolate(run, size)
            self._lock(run)
            acquired.append(run)
            count += size
            if is_last or count >= most:
                break
        self._report_runs(acquired)
        return count

    def _within(self, batch: Batch, end: int) -> list[Run]:
        return batch.between(max(self._fetched.first, batch.first), min(end, batch.end))

    def _is_throttled(self, batch: Batch, end: int) -> bool:
        """Whether many deliveries of a batch's available records limit their next acquisition."""
        runs = self._within(batch, end) if batch.is_split else batch.runs
        most = max((run.deliveries for run in runs if run.is_available), default=0)
        return most >= self._partition.limits.throttled_deliveries

    def _lock(self, run: Run) -> None:
        run.state = RecordState.ACQUIRED
        run.deliveries += 1
        self._partition.lock(run, self._wanted.member, self._now_ms)

    def _report_runs(self, runs: Sequence[Run]) -> None:
        """Report adjacent records with the same delivery count together."""
        at = 0
        while at < len(runs):
            first, end = runs[at].first, runs[at].end
            deliveries = runs[at].deliveries
            at += 1
            while at < len(runs) and runs[at].first == end and runs[at].deliveries == deliveries:
                end = runs[at].end
                at += 1
            self._report(first, end, deliveries)

    def _report(self, first: int, end: int, deliveries: int) -> None:
        self._acquired.append(AcquiredRun(first, end - 1, deliveries))
        self._count += end - first
        self._left -= end - first

    # Records that were not in flight yet.

    def _acquire_new(self, first: int, end: int) -> None:
        """Acquire records for the first time, as batches of about the requested size."""
        partition, wanted = self._partition, self._wanted
        if not partition.in_flight:
            first = max(first, partition.end_offset)
        max_records = self._left
        if max_records < end - first:
            limit = end
            end = self._fetched.end_around(first + max_records)
            if partition.has_gaps:
                end = min(end, limit)
        if wanted.is_exact and end - first > max_records:
            acquired_end = first + max_records
            self._add_partly(first, acquired_end, end)
        else:
            acquired_end = end
            for start, stop in self._portions(first, end):
                self._add(start, stop)
        if partition.in_flight.first.first == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, end)
        partition.close_gap(acquired_end)

    def _portions(self, first: int, end: int) -> list[tuple[int, int]]:
        """Split a range at batch boundaries, once the requested batch size is reached."""
        portions = []
        size = self._wanted.batch_size
        if not self._wanted.is_exact and end - first > size:
            for boundary in self._fetched.firsts:
                if boundary >= end:
                    break
                if boundary - first >= size:
                    portions.append((first, boundary))
                    first = boundary
        return [*portions, (first, end)]

    def _add(self, first: int, end: int) -> None:
        run = Run(first, end, RecordState.AVAILABLE, 0)
        self._partition.in_flight.add(Batch(run))
        self._lock(run)
        self._report(first, end, 1)

    def _add_partly(self, first: int, acquired_end: int, end: int) -> None:
        """Add a batch whose first records alone are acquired."""
        batch = Batch(Run(first, end, RecordState.AVAILABLE, 0))
        batch.is_split = True
        self._partition.in_flight.add(batch)
        self._lock(batch.between(first, acquired_end)[0])
        self._partition.note_available()
        self._report(first, acquired_end, 1)
