"""The interface of the places that a log is read from: directories, tiers, brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol

from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.reader.problems import ReaderError
from wirekafka.tables.scan import Batches, scan

Isolation = Literal["read_committed", "read_uncommitted"]


def no_batches() -> Batches:
    """Batches of an empty buffer."""
    return scan(b"")


class OffsetRange(NamedTuple):
    """The offsets of a partition that can be read, half-open."""

    start_offset: int
    end_offset: int


class SplitPoint(NamedTuple):
    """Where a part of an offset range may begin, and the bytes up to the next point."""

    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class CheckedBatches:
    """Whole batches whose framing, checksums and order of offsets are right, or a problem.

    A reader that goes on in spite of a problem asks for more.
    """

    batches: Batches = field(default_factory=no_batches)
    file: str = ""
    """The file or object that they are in, for messages."""
    position: int = 0
    """Where the buffer of the batches begins in the file."""
    problem: ReaderError | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a partition that one task reads; it can be pickled."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int = 0
    aborted: tuple[AbortedTransaction, ...] | None = field(default=None, repr=False)
    """The aborted transactions in it, so that each task need not look for them; None: unknown."""


def overlapping(
    aborted: Iterable[AbortedTransaction], offsets: OffsetRange
) -> list[AbortedTransaction]:
    """The transactions with records in a range, each once, in the order of their markers."""
    return sorted(
        {
            each
            for each in aborted
            if each.first_offset < offsets.end_offset and each.last_offset >= offsets.start_offset
        },
        key=attrgetter("last_offset"),
    )


class LogSource(Protocol):
    """A place that has logs. Raises ReaderError, and no other errors."""

    def topics(self) -> list[str]:
        """The names of all topics, in order, internal ones included."""

    def partitions(self, topic: str) -> list[int]:
        """The partitions that are here, in order. Raises UnknownLog."""

    def offsets(self, topic: str, partition: int, isolation: Isolation) -> OffsetRange:
        """Where the log begins, and its safe end: what lies below it, no broker takes back."""

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The offset of the first record with this timestamp or a later one."""

    def split_points(
        self, topic: str, partition: int, offsets: OffsetRange, target_bytes: int
    ) -> list[SplitPoint]:
        """Where to cut a range into parts of about that size; the first is its start offset."""

    def aborted(self, topic: str, partition: int, offsets: OffsetRange) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a range.

        Called before the range is read: what is compacted away meanwhile is no harm then.
        """

    def read(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        """All batches that overlap a range, in order, control batches included.

        Problems are not raised, but passed on in their place among the batches.
        """

    def close(self) -> None:
        """Release files and connections."""
