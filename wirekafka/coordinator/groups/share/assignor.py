"""The `simple` assignor of share groups, with the assignments that Kafka computes (KIP-932).

A partition may be assigned to several members. With fewer partitions than members each is assigned
to as many members as needed for all to have one; members keep their partitions as far as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import Generic, NamedTuple, TypeVar

from wirekafka.coordinator.groups.assignment import Assignment, Target, Unassignable
from wirekafka.coordinator.java_order import (
    HashOrder,
    grown_capacity,
    integers_in_order,
    uuid_hash_code,
)


class ShareTask(NamedTuple):
    """The input of the assignor: a group.

    `members` are in Kafka's iteration order. `is_homogeneous` says that all subscribe to the same
    topics. `partition_counts` has every existing topic that is subscribed to, `assignable` the
    partitions that may be assigned.
    """

    members: Mapping[str, SharingMember]
    is_homogeneous: bool
    partition_counts: Mapping[bytes, int]
    assignable: Mapping[bytes, Collection[int]]

    def partitions(self, topic: bytes) -> list[int]:
        """Return the partitions of a topic that may be assigned."""
        assignable = self.assignable.get(topic, ())
        return [each for each in range(self.partition_counts[topic]) if each in assignable]


class SharingMember(NamedTuple):
    """A member as input of the assignor.

    `has_topics` says that it subscribes to any topic, existing or not.
    """

    topic_ids: Sequence[bytes]
    target: Assignment
    has_topics: bool = True


def assign_simply(task: ShareTask) -> dict[str, Assignment]:
    """Return the targets of all members."""
    if not task.members:
        return {}
    targets = [Target(member.target) for member in task.members.values()]
    if task.is_homogeneous:
        first = next(iter(task.members.values()))
        if not first.has_topics:
            return {}
        _share_all(task, first.topic_ids, targets)
    else:
        if not any(member.topic_ids for member in task.members.values()):
            return {}
        _share_by_topic(task, targets)
    return {
        member_id: target.result() for member_id, target in zip(task.members, targets, strict=True)
    }


P = TypeVar("P")


class _Shares(Generic[P]):
    """The members that have each partition, and the partitions that each member has.

    Members are given by their position. A partition is a key of type P: an index, or a topic id
    and an index.
    """

    def __init__(self, order: HashOrder[P], members: Sequence[int], partition_count: int):
        self._order = order
        self.members_of: dict[P, dict[int, None]] = {}
        self._most: dict[P, int] = {}
        self.partitions_of: dict[int, dict[P, None]] = {}
        self.sharing = -(-len(members) // partition_count) if partition_count else 0
        precise = self.sharing * partition_count / len(members)
        self.wanted = {
            member: ceil(precise * (place + 1)) - ceil(precise * place)
            for place, member in enumerate(members)
        }
        """How many partitions each member should have."""

    def hold(self, member: int, partition: P) -> None:
        """Count a partition that a member has."""
        self.add(partition)
        self.give(member, partition)

    def add(self, partition: P) -> None:
        """Count a partition that may have no member."""
        self._order.compute(partition)
        self.members_of.setdefault(partition, {})

    def give(self, member: int, partition: P) -> None:
        """Count a member of a counted partition."""
        members = self.members_of[partition]
        members[member] = None
        self._most[partition] = max(self._most.get(partition, 0), len(members))
        self.partitions_of.setdefault(member, {})[partition] = None

    def take(self, member: int, partition: P) -> None:
        """Count that a member loses a partition."""
        del self.members_of[partition][member]
        del self.partitions_of[member][partition]

    def count(self, member: int) -> int:
        """Return how many partitions a member has."""
        return len(self.partitions_of.get(member, ()))

    def partitions(self) -> list[P]:
        """Return all counted partitions."""
        return self._order.walk()

    def members(self, partition: P) -> list[int]:
        """Return the members of a partition."""
        members = self.members_of[partition]
        return integers_in_order(members, grown_capacity(self._most.get(partition, 0)))


class _Rotation:
    """Members that lack partitions, who get one after the other, again and again."""

    def __init__(self, members: Collection[int]):
        self._members = sorted(members)
        self._next = 0
        self._has_given = False

    @property
    def is_over(self) -> bool:
        """Whether no member lacks partitions."""
        return not self._members

    def next(self) -> int | None:
        """Return the next member; None if a whole round has not used any."""
        if self._next >= len(self._members):
            if not self._has_given:
                return None
            if self.is_over:
                raise Unassignable("Inconsistent number of member IDs")
            self._next, self._has_given = 0, False
        self._next += 1
        return self._members[self._next - 1]

    def gave(self) -> None:
        """Note that the last returned member got a partition."""
        self._has_given = True

    def remove(self) -> None:
        """Remove the member that was returned last."""
        self._next -= 1
        del self._members[self._next]


# Members with the same subscriptions


class _Whole(NamedTuple):
    """A partition of any topic."""

    topic: bytes
    partition: int


def _share_all(task: ShareTask, topic_ids: Sequence[bytes], targets: list[Target]) -> None:
    wanted = [_Whole(topic, each) for topic in topic_ids for each in task.partitions(topic)]
    order = HashOrder(_hash_of, _table_of(len(wanted)))
    shares: _Shares[_Whole] = _Shares(order, range(len(targets)), len(wanted))
    unfilled = set()
    for member, held in enumerate(task.members.values()):
        _keep(member, held.target, frozenset(topic_ids), shares, targets[member])
        if shares.count(member) < shares.wanted[member]:
            unfilled.add(member)
    for member in range(len(targets)):
        held_order = HashOrder(_hash_of)
        for whole in shares.partitions_of.get(member, ()):
            held_order.put(whole)
        for whole in held_order.walk()[: max(0, shares.count(member) - shares.wanted[member])]:
            targets[member].withdraw(*whole)
            shares.take(member, whole)
    for whole in shares.partitions():
        for member in shares.members(whole):
            if len(shares.members_of[whole]) <= shares.sharing:
                break
            targets[member].withdraw(*whole)
            shares.take(member, whole)
            unfilled.add(member)
    for whole in wanted:
        shares.add(whole)
    rotation = _Rotation(unfilled)
    for whole in shares.partitions():
        for member in _new_members(whole, shares, rotation):
            targets[member].add(*whole)
        if rotation.is_over:
            break


def _keep(
    member: int,
    held: Assignment,
    topic_ids: Collection[bytes],
    shares: _Shares[_Whole],
    target: Target,
) -> None:
    """Count a member's partitions of subscribed topics, and drop all others from its target."""
    for topic, partitions in held.items():
        if topic not in topic_ids:
            target.drop(topic)
            continue
        for partition in partitions:
            shares.hold(member, _Whole(topic, partition))
            if shares.count(member) >= shares.wanted[member]:
                target.copy_old()


def _hash_of(whole: _Whole) -> int:
    """Return the hash code of a Java record of both fields."""
    return uuid_hash_code(whole.topic) * 31 + whole.partition


def _table_of(count: int) -> int:
    """Return the buckets of a map that Kafka's assignors make for so many entries."""
    return 1 << (int((count + 1) / 0.75 + 1) - 1).bit_length()


# Members with different subscriptions


def _share_by_topic(task: ShareTask, targets: list[Target]) -> None:
    order = HashOrder(uuid_hash_code)
    subscribers: dict[bytes, list[int]] = {}
    for position, member in enumerate(task.members.values()):
        for topic in member.topic_ids:
            order.put(topic)
            subscribers.setdefault(topic, []).append(position)
    for topic in order.walk():
        _share_topic(task, topic, subscribers[topic], targets)


def _share_topic(
    task: ShareTask, topic: bytes, subscribers: Sequence[int], targets: list[Target]
) -> None:
    wanted = task.partitions(topic)
    shares: _Shares[int] = _Shares(HashOrder(int, _table_of(len(wanted))), subscribers, len(wanted))
    for position, member in enumerate(task.members.values()):
        for partition in member.target.get(topic, ()):
            shares.hold(position, partition)
    for position in range(len(targets)):
        held = shares.partitions_of.get(position, {})
        excess = len(held) - shares.wanted.get(position, 0)
        for partition in integers_in_order(held, grown_capacity(len(held)))[: max(0, excess)]:
            targets[position].withdraw(topic, partition)
            shares.take(position, partition)
    for partition in shares.partitions():
        for position in shares.members(partition):
            if len(shares.members_of[partition]) <= shares.sharing:
                break
            targets[position].withdraw(topic, partition)
            shares.take(position, partition)
    for partition in wanted:
        shares.add(partition)
    rotation = _Rotation([each for each in subscribers if shares.count(each) < shares.wanted[each]])
    for partition in shares.partitions():
        for position in _new_members(partition, shares, rotation):
            targets[position].add(topic, partition)
        if rotation.is_over:
            break


def _new_members(partition: P, shares: _Shares[P], rotation: _Rotation) -> list[int]:
    """Return the members that get a partition, until enough have it or no other can."""
    added: list[int] = []
    # As in Kafka, members that are added here may be added once more.
    members = dict(shares.members_of[partition])
    missing = shares.sharing - len(members)
    while missing > 0:
        member = rotation.next()
        if member is None:
            break
        if member in members:
            continue
        shares.give(member, partition)
        added.append(member)
        missing -= 1
        rotation.gave()
        if shares.count(member) >= shares.wanted[member]:
            rotation.remove()
    return added
