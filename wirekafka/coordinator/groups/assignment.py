"""The input and output of server-side assignors (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.java_order import (
    copied_capacity,
    grown_capacity,
    integers_in_order,
    sized_capacity,
    uuids_in_order,
)

Assignment: TypeAlias = Mapping[bytes, Sequence[int]]
"""Partitions by topic id, both in the iteration order of Java's collections."""

NO_ASSIGNMENT: Assignment = {}
_NO_ENDS: Mapping[bytes, int] = MappingProxyType({})


class AssignedMember(NamedTuple):
    """A member as input of an assignor: its subscription and its last target assignment."""

    instance_id: str | None
    topic_ids: Collection[bytes]
    target: Assignment


class AssignmentTask(NamedTuple):
    """The input of an assignor: a group.

    `members` are in Kafka's iteration order. `is_homogeneous` says that all subscribe to the same
    topics. `partition_counts` has every topic that is subscribed to. `assigned` holds, by topic id,
    the partitions in the target of any member, and `assigned_ends` a number above all these
    partitions, where known.
    """

    members: Mapping[str, AssignedMember]
    is_homogeneous: bool
    partition_counts: Mapping[bytes, int]
    assigned: Mapping[bytes, Collection[int]]
    assigned_ends: Mapping[bytes, int] = _NO_ENDS


class Unassignable(Exception):
    """Raised by an assignor that cannot compute an assignment; the message says why."""


def same_assignment(one: Assignment, other: Assignment) -> bool:
    """Whether both hold the same partitions, in any order."""
    if one is other:
        return True
    if one.keys() != other.keys():
        return False
    for topic, partitions in one.items():
        others = other[topic]
        if len(partitions) != len(others) or set(partitions) != set(others):
            return False
    return True


def read_assignment(topics: Iterable[tuple[bytes, Sequence[int]]]) -> Assignment:
    """Return an assignment from a record, in the order in which Kafka iterates over it."""
    read = {
        topic: integers_in_order(partitions, copied_capacity(len(partitions)))
        for topic, partitions in topics
    }
    if len(read) < 2:
        return read
    return {topic: read[topic] for topic in uuids_in_order(read, grown_capacity(len(read)))}


class Target:
    """A member's target assignment, which an assignor changes; copied at the first change.

    The partitions of a topic stay as they are, in their order, until one is added or withdrawn.
    Java's hash tables only grow, so their size is recorded before partitions are removed. Topics
    that an assignor adds (`HashMap.computeIfAbsent`) precede older topics in the same bucket, and
    the table grows when the next partition is added.
    """

    __slots__ = ("_added", "_buckets", "_copied", "_old", "_table")

    def __init__(self, old: Assignment):
        self._old = old
        self._copied: dict[bytes, Sequence[int] | dict[int, None]] | None = None
        self._added: dict[bytes, dict[int, None]] = {}
        self._buckets: dict[bytes, int] = {}
        self._table = 1

    def add(self, topic: bytes, partition: int, expected: int | None = None) -> None:
        """Add a partition; `expected` is how many partitions of the topic a member should get."""
        copied = self._copied if self._copied is not None else self._copy()
        if len(copied) + len(self._added) > self._table * 3 // 4:
            self._table *= 2
        if not self._added.get(topic) and topic not in copied:
            self._added[topic] = {}
            self._buckets[topic] = (
                grown_capacity(0) if expected is None else sized_capacity(expected)
            )
        self._changeable(topic, copied)[partition] = None

    def remove(self, topic: bytes, partition: int) -> None:
        """Remove a partition from the target, and its topic with the last partition."""
        if not self.withdraw(topic, partition):
            self.drop(topic)

    def keep(self, topic: bytes, count: int) -> None:
        """Keep the first partitions of a topic of the old target, which has not changed yet."""
        if not count:
            self.drop(topic)
            return
        copied = self._copied if self._copied is not None else self._copy()
        # The remaining partitions stay in their order, as the table does not shrink.
        copied[topic] = self._old[topic][:count]

    def withdraw(self, topic: bytes, partition: int) -> int:
        """Remove a partition from the target; returns how many of its topic are left.

        The topic stays, even without partitions.
        """
        copied = self._copied if self._copied is not None else self._copy()
        partitions = self._changeable(topic, copied)
        self._buckets[topic] = grown_capacity(len(partitions), self._buckets[topic])
        del partitions[partition]
        return len(partitions)

    def copy_old(self) -> None:
        """Copy the target without a change, which may change the order of its topics."""
        if self._copied is None:
            self._copy()

    def drop(self, topic: bytes) -> None:
        """Remove all partitions of the topic from the target."""
        copied = self._copied if self._copied is not None else self._copy()
        if self._added.pop(topic, None) is None:
            del copied[topic]

    def result(self) -> Assignment:
        """Return the assignment; the original object if nothing changed."""
        if self._copied is None:
            return self._old
        topics = dict(reversed(self._added.items())) | self._copied
        return {
            topic: self._in_order(topic, topics[topic])
            for topic in (topics if len(topics) < 2 else uuids_in_order(topics, self._table))
        }

    def _in_order(self, topic: bytes, partitions: Sequence[int] | dict[int, None]) -> Sequence[int]:
        if not isinstance(partitions, dict):
            return partitions
        return integers_in_order(partitions, grown_capacity(len(partitions), self._buckets[topic]))

    def _changeable(
        self, topic: bytes, copied: dict[bytes, Sequence[int] | dict[int, None]]
    ) -> dict[int, None]:
        """Return the partitions of a topic so that they can be changed."""
        added = self._added.get(topic)
        if added is not None:
            return added
        partitions = copied[topic]
        if not isinstance(partitions, dict):
            partitions = copied[topic] = dict.fromkeys(partitions)
        return partitions

    def _copy(self) -> dict[bytes, Sequence[int] | dict[int, None]]:
        self._copied = dict(self._old)
        self._buckets = {
            topic: copied_capacity(len(partitions)) for topic, partitions in self._old.items()
        }
        self._table = grown_capacity(len(self._old), 1)
        return self._copied
