"""The input and output of server-side assignors (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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


class AssignedMember(NamedTuple):
    """A member as input of an assignor: its subscription and its last target assignment."""

    instance_id: str | None
    topic_ids: Collection[bytes]
    target: Assignment


class AssignmentTask(NamedTuple):
    """The input of an assignor: a group.

    `members` are in Kafka's iteration order. `is_homogeneous` says that all subscribe to the same
    topics. `partition_counts` has every topic that is subscribed to. `assigned` holds, by topic id,
    the partitions that are in the target of any member.
    """

    members: Mapping[str, AssignedMember]
    is_homogeneous: bool
    partition_counts: Mapping[bytes, int]
    assigned: Mapping[bytes, Collection[int]]


class Unassignable(Exception):
    """Raised by an assignor that cannot compute an assignment; the message says why."""


def same_assignment(one: Assignment, other: Assignment) -> bool:
    """Whether both hold the same partitions, in any order."""
    if one is other:
        return True
    if one.keys() != other.keys():
        return False
    if any(len(one[topic]) != len(other[topic]) for topic in one):
        return False
    return all(set(one[topic]) == set(other[topic]) for topic in one)


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

    Java's hash tables only grow, so their size is recorded before partitions are removed. Topics
    that an assignor adds (`HashMap.computeIfAbsent`) precede older ones in the same bucket, and the
    table grows when the next partition is added.
    """

    __slots__ = ("_added", "_buckets", "_copied", "_old", "_table")

    def __init__(self, old: Assignment):
        self._old = old
        self._copied: dict[bytes, dict[int, None]] | None = None
        self._added: dict[bytes, dict[int, None]] = {}
        self._buckets: dict[bytes, int] = {}
        self._table = 1

    def add(self, topic: bytes, partition: int, expected: int | None = None) -> None:
        """Add a partition; `expected` is how many partitions of the topic a member should get."""
        copied = self._copied if self._copied is not None else self._copy()
        if len(copied) + len(self._added) > self._table * 3 // 4:
            self._table *= 2
        partitions = self._added.get(topic) or copied.get(topic)
        if partitions is None:
            partitions = self._added[topic] = {}
            self._buckets[topic] = (
                grown_capacity(0) if expected is None else sized_capacity(expected)
            )
        partitions[partition] = None

    def remove(self, topic: bytes, partition: int) -> None:
        """Remove a partition from the target, and its topic with the last one."""
        if not self.withdraw(topic, partition):
            self.drop(topic)

    def remove_all(self, topic: bytes, partitions: Collection[int]) -> None:
        """Remove partitions of a topic from the target, and the topic if these are all."""
        copied = self._copied if self._copied is not None else self._copy()
        owned = self._added.get(topic) or copied[topic]
        if len(partitions) == len(owned):
            self.drop(topic)
            return
        self._buckets[topic] = grown_capacity(len(owned), self._buckets[topic])
        for partition in partitions:
            del owned[partition]

    def withdraw(self, topic: bytes, partition: int) -> int:
        """Remove a partition from the target; returns how many of its topic are left.

        The topic stays, even without partitions.
        """
        copied = self._copied if self._copied is not None else self._copy()
        partitions = self._added.get(topic) or copied[topic]
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
            topic: integers_in_order(
                topics[topic], grown_capacity(len(topics[topic]), self._buckets[topic])
            )
            for topic in (topics if len(topics) < 2 else uuids_in_order(topics, self._table))
        }

    def _copy(self) -> dict[bytes, dict[int, None]]:
        self._copied = {topic: dict.fromkeys(partitions) for topic, partitions in self._old.items()}
        self._buckets = {
            topic: copied_capacity(len(partitions)) for topic, partitions in self._old.items()
        }
        self._table = grown_capacity(len(self._old), 1)
        return self._copied
