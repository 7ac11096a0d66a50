"""The requests of clients and their results, in the order in which they happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

Place = tuple[str, int]
"""A topic's name and the index of a partition."""


class Verdict(Enum):
    """What a client knows about the outcome of an operation."""

    DONE = "acknowledged, committed if in a transaction"
    UNDONE = "refused or aborted, for certain"
    UNKNOWN = "never heard of again"


@dataclass(slots=True)
class Send:
    """One record written. Its `value` occurs once in the complete history."""

    place: Place
    value: int
    offset: int | None = None
    """The offset of the record, once acknowledged."""


@dataclass(slots=True)
class Read:
    """The records of one poll."""

    committed: bool
    """Whether with isolation.level read_committed."""
    records: list[tuple[Place, int, int]]
    """Place, offset and value, in the order in which the consumer got them."""
    is_fresh: bool = False
    """Whether a seek or an assignment set positions since this process's last read."""
    ended: int = 0


@dataclass(slots=True)
class OffsetCommit:
    """A commit of a group's position."""

    group: str
    place: Place
    offset: int


@dataclass(slots=True)
class OffsetFetch:
    """The committed position that a group fetched; -1 for none."""

    group: str
    place: Place
    offset: int


Step = Send | Read | OffsetCommit | OffsetFetch


@dataclass(slots=True, kw_only=True)
class Operation:
    """Steps with one outcome: those of a transaction, or a single step outside of any."""

    process: str
    began: int
    is_transaction: bool = False
    steps: list[Step] = field(default_factory=list)
    verdict: Verdict = Verdict.UNKNOWN
    decided: int | None = None
    """When a commit was first requested."""
    ended: int = 0

    def sends(self) -> Iterator[Send]:
        return (step for step in self.steps if isinstance(step, Send))

    def reads(self) -> Iterator[Read]:
        return (step for step in self.steps if isinstance(step, Read))

    def offset_commits(self) -> Iterator[OffsetCommit]:
        return (step for step in self.steps if isinstance(step, OffsetCommit))


@dataclass(slots=True)
class Drained:
    """One partition, read to its end after all faults have ended."""

    committed: list[tuple[int, int]]
    """Offset and value as read_committed sees them."""
    uncommitted: list[tuple[int, int]]
    end_offset: int
    """The end offset of a read_committed reader."""
    log_end: int = 0
    """The end offset of a read_uncommitted reader; only set after a power cut."""


class History:
    """Operations in the order in which they began; `tick` is their clock."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.drained: dict[Place, Drained] = {}
        self.group_offsets: dict[tuple[str, Place], int] = {}
        """The position that each group fetches at the end, by group and place."""
        # Atomic, also with several threads.
        self._moments = count(1)

    def tick(self) -> int:
        """The next logical time."""
        return next(self._moments)

    def begin(self, process: str, *steps: Step, is_transaction: bool = False) -> Operation:
        """Record what a process is about to do."""
        operation = Operation(
            process=process, began=self.tick(), is_transaction=is_transaction, steps=list(steps)
        )
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, verdict: Verdict) -> None:
        """Record the outcome."""
        operation.verdict = verdict
        operation.ended = self.tick()

    def read(self, process: str, read: Read) -> Operation:
        """Record a poll outside of transactions."""
        operation = self.begin(process, read)
        self.end(operation, Verdict.DONE)
        read.ended = operation.ended
        return operation

    def sends(self) -> Iterable[tuple[Operation, Send]]:
        return ((operation, send) for operation in self.operations for send in operation.sends())

    def reads(self) -> Iterable[tuple[Operation, Read]]:
        return ((operation, read) for operation in self.operations for read in operation.reads())

    def count(self) -> int:
        """The number of steps: sends, polls and commits of offsets."""
        return sum(len(operation.steps) for operation in self.operations)
