"""Which segments go when the logs of a directory exceed their budget, and who loses what: pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from itertools import accumulate, chain
from typing import NamedTuple, TypeAlias

from wirekafka.config.own import DiskLimit

_EVERYTHING = 1 << 63
_PER_STEP = 500
"""Partitions, segments or losses."""
_MOST_LOSSES = 5_000


class SpareRank(IntEnum):
    """How dispensable a segment is; the lowest rank goes first."""

    READ = 0
    """Every group has read it, or it is readable in remote storage too."""
    UNCLAIMED = 1
    """No group has a committed offset in the partition."""
    UNREAD = 2
    """A group has not read all of it, or the committed offsets are not known."""


class BudgetSegment(NamedTuple):
    """A segment that may be deleted as far as its log is concerned."""

    end_offset: int
    size_bytes: int
    age_from_ms: int
    """The time of its newest record, in ms."""
    is_active: bool = False
    """Whether it is appended to: it goes after all closed segments of its rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPartition:
    """A partition led here, with its spare segments, oldest first."""

    topic: str
    partition: int
    start_offset: int
    """The log start offset: what is below it, nobody can read."""
    segments: Sequence[BudgetSegment]
    positions: Mapping[str, int] | None
    """The committed offset of each group; None if they are not known."""
    keeps_unread: bool = False
    is_remote: bool = False
    """Whether the segments are readable in remote storage, so that nobody loses anything."""

    def ranks(self) -> tuple[int, SpareRank]:
        """Up to which offset its records have been read, and the rank of what follows."""
        if self.is_remote:
            return _EVERYTHING, SpareRank.READ
        if self.positions is None:
            return self.start_offset, SpareRank.UNREAD
        if not self.positions:
            return self.start_offset, SpareRank.UNCLAIMED
        return max(min(self.positions.values()), self.start_offset), SpareRank.UNREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDeletion:
    """What one partition loses: all its segments up to an offset."""

    topic: str
    partition: int
    end_offset: int
    segments: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLoss:
    """Records that go although a group has not read them."""

    group: str | None
    """None if the committed offsets are not known."""
    topic: str
    partition: int
    records: int
    """Counted by offsets: markers of transactions are among them."""
    size_bytes: int
    """Their share of the bytes of their segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """What is deleted to free a number of bytes, and what cannot be freed."""

    excess_bytes: int
    """What was to be freed."""
    deletions: Sequence[BudgetDeletion] = ()
    losses: Sequence[UnreadLoss] = ()
    """By group, then by partition; the largest first, and no more than five thousand."""
    lost_bytes: int = 0
    """Of all losses."""
    is_partial: bool = False
    """Whether it has reached the most segments although more could go."""

    @property
    def freed_bytes(self) -> int:
        """What the deletions free."""
        return sum(each.size_bytes for each in self.deletions)

    @property
    def shortfall_bytes(self) -> int:
        """What no deletion may free: appends have to be refused."""
        return max(self.excess_bytes - self.freed_bytes, 0)

    def freed_by_topic(self) -> dict[str, int]:
        """The bytes that each topic loses, the largest first."""
        found: dict[str, int] = {}
        for each in self.deletions:
            found[each.topic] = found.get(each.topic, 0) + each.size_bytes
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


_Order: TypeAlias = tuple[SpareRank, bool, int, str, int]


@dataclass(slots=True)
class _Course:
    """A partition, and which of its segments the plan deletes so far."""

    partition: BudgetPartition
    read_offset: int
    """Up to where it has been read."""
    last_rank: SpareRank
    """The rank of what follows."""
    may_all_go: bool
    """Whether what follows may go as well."""
    count: int = 0
    """How many segments the plan deletes so far."""
    size_bytes: int = 0
    """The bytes of these."""
    rank: SpareRank = SpareRank.READ
    """The rank of the last of these."""


def planning(
    partitions: Collection[BudgetPartition],
    excess_bytes: int,
    limit: DiskLimit,
    most_segments: int | None = None,
) -> Generator[None, None, DeletionPlan]:
    """Choose the segments that free `excess_bytes`, as few as possible in this order.

    Read segments go before segments that no group has claimed, and unread segments last, if the
    policy and the topic allow it; closed segments go before active ones, older before newer.
    A segment goes only after all that are before it in its log. The plan has no more segments than
    `most_segments`, if given. Yields after each millisecond or two; returns the plan.
    """
    courses: list[_Course] = []
    heads: list[tuple[_Order, int]] = []
    for number, each in enumerate(partitions):
        if number % _PER_STEP == _PER_STEP - 1:
            yield
        course = _course(each, limit)
        courses.append(course)
        if (order := _next_order(course)) is not None:
            heappush(heads, (order, number))
    missing_bytes = excess_bytes
    seen = 0
    while missing_bytes > 0 and heads and seen != most_segments:
        (rank, *_), number = heappop(heads)
        course = courses[number]
        size_bytes = course.partition.segments[course.count].size_bytes
        course.count += 1
        course.size_bytes += size_bytes
        course.rank = rank
        missing_bytes -= size_bytes
        if (order := _next_order(course)) is not None:
            heappush(heads, (order, number))
        seen += 1
        if seen % _PER_STEP == 0:
            yield
    lost_bytes = 0
    losses: list[tuple[int, int, UnreadLoss]] = []
    unread = (each for each in courses if each.rank is SpareRank.UNREAD)
    for number, loss in enumerate(chain.from_iterable(map(_losses, unread))):
        lost_bytes += loss.size_bytes
        heappush(losses, (loss.size_bytes, -number, loss))
        if len(losses) > _MOST_LOSSES:
            heappop(losses)
        if number % _PER_STEP == _PER_STEP - 1:
            yield
    largest = [loss for *_, loss in losses]
    largest.sort(key=lambda loss: (-loss.size_bytes, loss.topic, loss.partition, loss.group or ""))
    return DeletionPlan(
        excess_bytes=max(excess_bytes, 0),
        deletions=tuple(_deletion(each) for each in courses if each.count),
        losses=tuple(largest),
        lost_bytes=lost_bytes,
        is_partial=missing_bytes > 0 and bool(heads),
    )


def _course(partition: BudgetPartition, limit: DiskLimit) -> _Course:
    read_offset, last_rank = partition.ranks()
    is_kept = partition.keeps_unread or not limit.deletes_unread
    may_all_go = not is_kept or last_rank is not SpareRank.UNREAD
    return _Course(partition, read_offset, last_rank, may_all_go)


def _next_order(course: _Course) -> _Order | None:
    """The place of a partition's next segment in the order; None if none may go."""
    partition = course.partition
    if course.count == len(partition.segments):
        return None
    segment = partition.segments[course.count]
    is_read = segment.end_offset <= course.read_offset
    if not (is_read or course.may_all_go):
        return None
    rank = SpareRank.READ if is_read else course.last_rank
    return rank, segment.is_active, segment.age_from_ms, partition.topic, partition.partition


def _deletion(course: _Course) -> BudgetDeletion:
    partition = course.partition
    return BudgetDeletion(
        topic=partition.topic,
        partition=partition.partition,
        end_offset=partition.segments[course.count - 1].end_offset,
        segments=course.count,
        size_bytes=course.size_bytes,
    )


def _losses(course: _Course) -> Iterator[UnreadLoss]:
    """What groups lose with the first segments of a partition."""
    partition = course.partition
    segments = partition.segments[: course.count]
    ends = [each.end_offset for each in segments]
    sizes_after = list(accumulate((each.size_bytes for each in segments[:0:-1]), initial=0))[::-1]
    positions: Mapping[str, int] | Mapping[None, int] = {None: partition.start_offset}
    if partition.positions is not None:
        positions = partition.positions
    for group, position in positions.items():
        first = max(partition.start_offset, position)
        number = bisect_right(ends, first)
        if number == len(ends):
            continue
        start_offset = max(partition.start_offset, ends[number - 1] if number else 0)
        size_bytes = segments[number].size_bytes * (ends[number] - first)
        yield UnreadLoss(
            group=group,
            topic=partition.topic,
            partition=partition.partition,
            records=ends[-1] - first,
            size_bytes=size_bytes // (ends[number] - start_offset) + sizes_after[number],
        )
