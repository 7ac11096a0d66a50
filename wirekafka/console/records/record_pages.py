"""Pages of a topic's records across partitions, in the order of their timestamps."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from wirekafka.console.topic_reads import LIST_BYTES, Chunk, Positions, Seen, TopicReads, records_of

MOST_RECORDS = 200
MOST_PARTITIONS = 50
"""The most partitions that one page reads."""
_BUDGET_BYTES = 64 << 20
_WINDOW_BYTES = 4 << 20
_MOST_ROUNDS = 200


@dataclass(slots=True, frozen=True)
class PageWish:
    """Which page: `count` records from `positions` on.

    Positions are the first offsets, or, with `newest_first`, the offsets behind the last records. A
    partition without a position begins at the start, or the end.
    """

    partitions: tuple[int, ...]
    count: int = 50
    newest_first: bool = True
    positions: Positions = field(default_factory=dict)
    kept_bytes: int = LIST_BYTES


@dataclass(slots=True)
class RecordPage:
    """The records of a page, and the positions of the next page."""

    records: list[Seen]
    following: Positions
    failed: dict[int, str]
    """Why some partitions could not be read."""
    is_last: bool
    is_short: bool
    """Whether the page has fewer records than there are, because the limit of bytes was reached."""


def newest_partitions(reads: TopicReads, most: int = MOST_PARTITIONS) -> tuple[int, ...]:
    """The partitions with the newest records, as many as a page reads at most.

    By the timestamps that brokers keep for each partition (KIP-734).
    """
    known = sorted(reads.shape.leaders)
    if len(known) <= most:
        return tuple(known)
    newest = reads.newest_timestamps(known)
    filled = [index for index in known if newest.get(index, -1) >= 0]
    return tuple(sorted(heapq.nlargest(most, filled, key=newest.__getitem__) or known[:most]))


def read_page(reads: TopicReads, wish: PageWish) -> RecordPage:
    """Read a page. Raises CliError."""
    spans, missing = reads.spans(wish.partitions)
    sides: dict[int, _Side] = {}
    for index, offsets in spans.items():
        at = wish.positions.get(index)
        sides[index] = (
            _Backward(offsets, at, wish) if wish.newest_first else _Forward(offsets, at, wish)
        )
    merging = _Merging(reads, sides, wish)
    records = merging.records()
    reads.decide(records)
    return RecordPage(
        records=records,
        following={index: side.position for index, side in sides.items()},
        failed=missing | merging.failed,
        is_last=not merging.is_short
        and all(side.is_done and not side.loaded for side in sides.values()),
        is_short=merging.is_short,
    )


def read_record(reads: TopicReads, index: int, offset: int, kept_bytes: int) -> Seen | None:
    """One record, or the problem of its batch; None if there is none at this offset."""
    if index not in reads.shape.leaders:
        return None
    for chunk in reads.fetch({index: offset}):
        for seen in records_of(chunk, offset, kept_bytes):
            if seen.problem and seen.batch.base_offset <= offset < seen.batch.end_offset:
                return seen
            if seen.offset > offset:
                return None
            if seen.offset == offset:
                reads.decide([seen])
                return seen
    return None


class _Side(Protocol):
    """The known records of a partition from a position on, in the page's direction."""

    loaded: deque[Seen]
    is_done: bool
    """Whether no more can be loaded."""
    position: int
    """Where the next page goes on."""

    def wanted(self) -> int:
        """The offset to fetch from."""

    def take(self, chunk: Chunk) -> None:
        """Load the records of a chunk that was fetched from there."""

    def pop(self) -> Seen:
        """Remove the first record, and move the position behind it."""


class _Forward:
    """Records with rising offsets."""

    def __init__(self, offsets: range, at: int | None, wish: PageWish):
        start = offsets.start
        self._end = offsets.stop
        self._wish = wish
        self.position = min(max(start, start if at is None else at), self._end)
        self._next = self.position
        self.loaded: deque[Seen] = deque()
        self.is_done = self._next >= self._end

    def wanted(self) -> int:
        return self._next

    def take(self, chunk: Chunk) -> None:
        for header, _, _ in chunk.batches(self._next):
            behind = header.end_offset
        for seen in records_of(chunk, self._next, self._wish.kept_bytes):
            if seen.offset >= self._end:
                break
            if len(self.loaded) == self._wish.count:
                behind = self.loaded[-1].offset + 1
                break
            self.loaded.append(seen)
        self._next = behind
        self.is_done = self._next >= self._end
        if not self.loaded:
            self.position = min(self._next, self._end)

    def pop(self) -> Seen:
        seen = self.loaded.popleft()
        self.position = seen.batch.end_offset if seen.problem else seen.offset + 1
        if not self.loaded and self.is_done:
            self.position = self._end
        return seen


class _Backward:
    """Records with falling offsets: windows that lie before each other, each read forward."""

    def __init__(self, offsets: range, at: int | None, wish: PageWish):
        self._start = offsets.start
        end = offsets.stop
        self._wish = wish
        self._span = self._most = wish.count
        self.position = max(self._start, min(end, end if at is None else at))
        self.loaded: deque[Seen] = deque()
        self.is_done = self.position <= self._start
        self._upper = self._lower = self._next = self.position
        self._window: deque[Seen] = deque()
        self._read_bytes = 0
        self._open(self.position)

    def wanted(self) -> int:
        return self._next

    def take(self, chunk: Chunk) -> None:
        self._read_bytes += len(chunk.records)
        behind = self._next
        for header, _, _ in chunk.batches(self._next):
            behind = header.end_offset
        for seen in records_of(chunk, self._next, self._wish.kept_bytes):
            if seen.offset >= self._upper:
                break
            self._window.append(seen)
        self._next = behind
        if self._next >= self._upper:
            self._close()
        elif self._read_bytes > _WINDOW_BYTES and self._span > 1:
            # Large records: a smaller window costs less than to read on.
            self._span = self._most = max(1, self._span // 8)
            self._open(self._upper)

    def pop(self) -> Seen:
        seen = self.loaded.popleft()
        self.position = seen.batch.base_offset if seen.problem else seen.offset
        if not self.loaded and self.is_done:
            self.position = self._start
        return seen

    def _open(self, upper: int) -> None:
        self._upper = upper
        self._lower = self._next = max(self._start, upper - self._span)
        self._window = deque(maxlen=self._most)
        self._read_bytes = 0

    def _close(self) -> None:
        """Load the window that has been read, and open the window before it."""
        self.loaded.extend(reversed(self._window))
        # A window of more offsets than it keeps has dropped those before its first record.
        is_full = len(self._window) == self._most and self._span > self._most
        lower = self._window[0].offset if is_full else self._lower
        if self._window and self._window[0].problem:
            lower = min(lower, self._window[0].batch.base_offset)
        self.is_done = lower <= self._start
        if not self._window:
            self._span *= 4  # Compaction has left gaps.
            self.position = lower
        self._open(lower)


class _Merging:
    """Takes records from the partitions in the order of time, and fetches more when needed."""

    def __init__(self, reads: TopicReads, sides: dict[int, _Side], wish: PageWish):
        self._reads, self._sides, self._wish = reads, sides, wish
        self._limit = reads.fetched_bytes + _BUDGET_BYTES
        self._stopped: set[int] = set()
        self.failed: dict[int, str] = {}
        self.is_short = False

    def records(self) -> list[Seen]:
        """The records of the page."""
        found: list[Seen] = []
        heads: list[tuple[int, int]] = []
        empty = list(self._sides)
        while len(found) < self._wish.count:
            self._load(empty)
            for index in empty:
                self._push(heads, index)
            if not heads:
                break
            _, index = heapq.heappop(heads)
            found.append(self._sides[index].pop())
            empty = [] if self._sides[index].loaded else [index]
            if not empty:
                self._push(heads, index)
        return found

    def _push(self, heads: list[tuple[int, int]], index: int) -> None:
        side = self._sides[index]
        if side.loaded:
            time = side.loaded[0].timestamp
            heapq.heappush(heads, (-time if self._wish.newest_first else time, index))

    def _load(self, empty: Iterable[int]) -> None:
        """Fetch until each of these partitions has records or no more are there."""
        for _ in range(_MOST_ROUNDS):
            wanted = {
                index: side.wanted()
                for index in empty
                if index not in self._stopped
                and not (side := self._sides[index]).loaded
                and not side.is_done
            }
            if not wanted:
                return
            if self._reads.fetched_bytes > self._limit:
                break
            progress = False
            for chunk in self._reads.fetch(wanted):
                if chunk.error:
                    self.failed[chunk.partition] = chunk.error
                    self._stopped.add(chunk.partition)
                    progress = True
                elif not chunk.is_empty:
                    self._sides[chunk.partition].take(chunk)
                    progress = True
            if not progress:
                break
        self.is_short = True
        self._stopped.update(empty)
