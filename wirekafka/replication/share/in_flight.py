"""Records of a share partition in flight: batches of offsets, divided into runs of equal state."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import NamedTuple

_first_of = attrgetter("first")


class RecordState(IntEnum):
    """The delivery state of a record, with the numbers that the share coordinator stores."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Locked by a member, until it acknowledges the record or the lock expires. Never stored."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """To be archived after it was written to the dead-letter topic (KIP-1191)."""
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is never delivered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class StoredRun(NamedTuple):
    """A state as the share coordinator stores it; `last` is inclusive, as in its protocol."""

    first: int
    last: int
    state: int
    deliveries: int


class GivenUp(StrEnum):
    """Kafka's reasons for archiving records that no member accepted."""

    REJECTED = "Offset rejected by client."
    EXHAUSTED = "Offset delivery count exceeded the threshold."


class DeadLetters(NamedTuple):
    """Records in state ARCHIVING, to be written to the dead-letter topic of the group.

    Their offsets are `first` to `last`, inclusive.
    """

    first: int
    last: int
    deliveries: int
    reason: GivenUp


def exhausted(stored: Iterable[StoredRun]) -> list[DeadLetters]:
    """Return the dead letters of released records with too many deliveries."""
    return [
        DeadLetters(first, last, deliveries, GivenUp.EXHAUSTED)
        for first, last, state, deliveries in stored
        if state == RecordState.ARCHIVING
    ]


class Before(NamedTuple):
    """The state of a run before its change, which is restored if that cannot be stored."""

    state: RecordState
    member: str | None


class Run:
    """Adjacent offsets with the same state: `first` up to `end`, exclusive.

    `deliveries` counts how often the records were delivered. `member` and `locked_until_ms` are
    set while the records are acquired. While `change` is set, the present state is not stored yet.
    """

    __slots__ = (
        "before",
        "change",
        "deliveries",
        "end",
        "first",
        "is_dropped",
        "locked_until_ms",
        "member",
        "state",
    )

    def __init__(self, first: int, end: int, state: RecordState, deliveries: int):
        self.first = first
        self.end = end
        self.state = state
        self.deliveries = deliveries
        self.member: str | None = None
        self.locked_until_ms: int | None = None
        self.change: StateChange | None = None
        self.before: Before | None = None
        self.is_dropped = False
        """Archived permanently, even if a change in progress cannot be stored."""

    @property
    def size(self) -> int:
        return self.end - self.first

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire the records."""
        return self.state is RecordState.AVAILABLE and self.change is None

    @property
    def is_settled(self) -> bool:
        """Whether the records are never delivered again, and that is stored."""
        return self.change is None and self.state.is_final

    def split(self, offset: int) -> Run:
        """Give up the offsets from `offset` on, and return them as another run."""
        assert self.first < offset < self.end
        rest = Run(offset, self.end, self.state, self.deliveries)
        rest.member, rest.locked_until_ms = self.member, self.locked_until_ms
        rest.change, rest.before, rest.is_dropped = self.change, self.before, self.is_dropped
        if self.change is not None:
            self.change.runs.append(rest)
        self.end = offset
        return rest

    def matches(self, other: Run) -> bool:
        """Whether both runs have the same state, so that adjacent runs can be joined."""
        return (
            self.state is other.state
            and self.deliveries == other.deliveries
            and self.member == other.member
            and self.locked_until_ms == other.locked_until_ms
            and self.change is None
            and other.change is None
        )

    def archive(self) -> None:
        """Drop records that are no longer in the log, or belong to an aborted transaction."""
        self.state = RecordState.ARCHIVED
        self.member = self.locked_until_ms = None
        self.is_dropped = True


class StateChange:
    """New states of runs that take effect once they are stored, or are rolled back."""

    __slots__ = ("dead_letters", "runs", "stored")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.stored: list[StoredRun] = []
        """The states to store, as of the time of the change."""
        self.dead_letters: list[DeadLetters] = []
        """The records to write to the dead-letter topic once the change is stored."""

    def __bool__(self) -> bool:
        return bool(self.stored)

    def begin(self, run: Run, state: RecordState) -> None:
        """Change a run's state; it is no longer acquired, but keeps its lock for a rollback."""
        run.before = Before(run.state, run.member)
        run.state, run.member = state, None
        run.change = self
        self.runs.append(run)
        self.note(run)

    def give_up(self, run: Run, reason: GivenUp) -> None:
        """Begin to write a run's records to the dead-letter topic, and then to archive them."""
        self.begin(run, RecordState.ARCHIVING)
        self.dead_letters.append(DeadLetters(run.first, run.end - 1, run.deliveries, reason))

    def note(self, run: Run) -> None:
        """Store the present state of a run."""
        self.stored.append(StoredRun(run.first, run.end - 1, run.state, run.deliveries))


class Batch:
    """Offsets that were first acquired together; `end` is exclusive.

    As long as it is whole, it has one state and is acquired as one. Once it is split, every
    record is acquired and reported by itself, although equal neighbours share a run here.
    """

    __slots__ = ("end", "first", "is_split", "runs")

    def __init__(self, run: Run):
        self.first = run.first
        self.end = run.end
        self.runs = [run]
        self.is_split = False

    @property
    def size(self) -> int:
        return self.end - self.first

    @property
    def whole(self) -> Run:
        """The only run of a batch that is not split."""
        assert not self.is_split
        return self.runs[0]

    def is_within(self, first: int, end: int) -> bool:
        return first <= self.first and self.end <= end

    def at(self, offset: int) -> Run:
        """The run that has the offset, which must be in the batch."""
        return self.runs[bisect_right(self.runs, offset, key=_first_of) - 1]

    def between(self, first: int, end: int) -> list[Run]:
        """The runs from `first` up to `end`, exclusive, cut at both; for a split batch only."""
        assert self.is_split
        self._cut(first)
        self._cut(end)
        start = bisect_left(self.runs, first, key=_first_of)
        stop = bisect_left(self.runs, end, key=_first_of)
        return self.runs[start:stop]

    def isolate(self, run: Run, size: int) -> Run:
        """Cut a run of the batch to at most `size` offsets; the rest follows it in the batch."""
        self._cut(run.first + size)
        return run

    def join(self) -> None:
        """Make one run of neighbours in the same state."""
        runs = self.runs
        joined = runs[:1]
        for run in runs[1:]:
            if joined[-1].matches(run):
                joined[-1].end = run.end
            else:
                joined.append(run)
        self.runs = joined

    def _cut(self, offset: int) -> None:
        if not self.first < offset < self.end:
            return
        index = bisect_right(self.runs, offset, key=_first_of) - 1
        run = self.runs[index]
        if run.first < offset:
            self.runs.insert(index + 1, run.split(offset))


class InFlight:
    """The batches of a share partition by offset. They do not overlap; gaps may be between them."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[Batch] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    @property
    def first(self) -> Batch:
        return self._batches[0]

    @property
    def last(self) -> Batch:
        return self._batches[-1]

    def add(self, batch: Batch) -> None:
        """Insert a batch, usually behind all known batches."""
        batches = self._batches
        if not batches or batches[-1].first < batch.first:
            batches.append(batch)
        else:
            batches.insert(bisect_left(batches, batch.first, key=_first_of), batch)

    def floor(self, offset: int) -> Batch | None:
        """The last batch that starts at or below the offset, even if it ends below it too."""
        index = bisect_right(self._batches, offset, key=_first_of)
        return self._batches[index - 1] if index else None

    def after(self, offset: int) -> Batch | None:
        """The first batch that starts above the offset."""
        index = bisect_right(self._batches, offset, key=_first_of)
        return self._batches[index] if index < len(self._batches) else None

    def starting_in(self, first: int, end: int) -> list[Batch]:
        """The batches that start at `first` or above, and below `end`."""
        batches = self._batches
        start = bisect_left(batches, first, key=_first_of)
        stop = bisect_left(batches, end, key=_first_of)
        return batches[start:stop]

    def overlapping(self, first: int, end: int) -> list[Batch]:
        """The batches that start below `end`, from the last that starts at or below `first`."""
        floor = self.floor(first)
        return self.starting_in(first if floor is None else floor.first, end)

    def remove_below(self, offset: int) -> None:
        """Remove the batches that start below the offset."""
        del self._batches[: bisect_left(self._batches, offset, key=_first_of)]

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()
