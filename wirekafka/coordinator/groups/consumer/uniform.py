"""The `uniform` assignor of consumer groups.

Where all members subscribe to the same topics, shares differ by at most one partition, and members
keep their partitions as far as possible. Where they do not, members keep what they still subscribe
to; free partitions go to the member with the fewest; then partitions move, topic by topic, from the
most to the least loaded subscribers until no move helps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from wirekafka.coordinator.groups.assignment import (
    AssignedMember,
    Assignment,
    AssignmentTask,
    Target,
    Unassignable,
)
from wirekafka.coordinator.groups.steps import MEMBERS_PER_STEP, Steps
from wirekafka.coordinator.java_order import copied_capacity, uuid_sort_key, uuids_in_order

_PARTITIONS_PER_STEP = 16
"""How many partitions a member gets between two places."""

_TARGETS_PER_STEP = 4
"""How many changed targets are put in order between two places."""

_Free: TypeAlias = tuple[bytes, int]
"""A partition without an owner: topic id and index."""

_ROUNDS = 16
"""The maximum number of rounds: overlapping subscriptions may need many to settle."""
_NOBODY = -1


def assign_uniformly(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    """Return the targets of all members, whether their subscriptions are alike or not."""
    if not task.members:
        return {}
    return (yield from _assign_alike(task) if task.is_homogeneous else _assign_mixed(task))


def _assign_alike(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    subscribed = next(iter(task.members.values())).topic_ids
    topic_ids = uuids_in_order(subscribed, copied_capacity(len(subscribed)))
    if not topic_ids:
        return {}
    free = [each for topic in topic_ids for each in _unassigned(task, topic)]
    total = sum(task.partition_counts[topic] for topic in topic_ids)
    yield
    cut, changed, room = yield from _keep(task, total, frozenset(topic_ids), free)
    remaining = iter(free)
    for member_id, count in room:
        target = changed.get(member_id)
        if target is None:
            target = changed[member_id] = Target(task.members[member_id].target)
        for number, (topic, partition) in zip(range(count), remaining, strict=False):
            target.add(topic, partition)
            if not number % _PARTITIONS_PER_STEP:
                yield
    if next(remaining, None) is not None:
        raise Unassignable("Partitions were left unassigned")
    assigned = {member_id: member.target for member_id, member in task.members.items()}
    assigned.update(cut)
    yield
    for index, (member_id, target) in enumerate(changed.items()):
        assigned[member_id] = target.result()
        if not index % _TARGETS_PER_STEP:
            yield
    return assigned


def _unassigned(task: AssignmentTask, topic: bytes) -> list[_Free]:
    count = task.partition_counts[topic]
    assigned = task.assigned.get(topic, ())
    if len(assigned) == count and task.assigned_ends.get(topic, count + 1) <= count:
        return []
    return [(topic, partition) for partition in range(count) if partition not in assigned]


def _keep(
    task: AssignmentTask, total: int, topic_ids: frozenset[bytes], free: list[_Free]
) -> Steps[tuple[dict[str, Assignment], dict[str, Target], list[tuple[str, int]]]]:
    """Let members keep their share and add the rest to `free`.

    Returns the targets that lose a part of their one topic, the other changed targets, and the room
    per member. If the partitions cannot be divided evenly, the surplus partitions are given one to
    a member: first to members that have a surplus partition already, as long as enough surplus
    places remain for later members.
    """
    members = len(task.members)
    share, extras = divmod(total, members)
    cut: dict[str, Assignment] = {}
    changed: dict[str, Target] = {}
    room = []
    for index, (member_id, member) in enumerate(task.members.items()):
        may_have_extra = extras > 0
        left = _room_of(member.target, share + may_have_extra, topic_ids)
        if left < 0:
            quota = share + may_have_extra
            if quota and len(member.target) == 1 and not member.target.keys() - topic_ids:
                [(topic, partitions)] = member.target.items()
                # As `Target.keep`: the remaining partitions stay in their order.
                cut[member_id] = {topic: partitions[:quota]}
                free += [(topic, partition) for partition in partitions[quota:]]
                left = 0
            else:
                changed[member_id], left = _keep_of(member, quota, topic_ids, free)
        if left and may_have_extra and members - index > extras:
            left -= 1
            may_have_extra = False
        if left:
            room.append((member_id, left))
        extras -= may_have_extra
        if not index % MEMBERS_PER_STEP:
            yield
    return cut, changed, room


def _room_of(target: Assignment, quota: int, topic_ids: frozenset[bytes]) -> int:
    """How many partitions a member may get that keeps all it has; -1 if it keeps only a part."""
    for topic, partitions in target.items():
        quota -= len(partitions)
        if quota < 0 or topic not in topic_ids:
            return -1
    return quota


def _keep_of(
    member: AssignedMember, quota: int, topic_ids: frozenset[bytes], free: list[_Free]
) -> tuple[Target, int]:
    target = Target(member.target)
    for topic, partitions in member.target.items():
        if topic not in topic_ids:
            target.drop(topic)
            continue
        kept = min(quota, len(partitions))
        quota -= kept
        if kept < len(partitions):
            target.keep(topic, kept)
            free += [(topic, partition) for partition in partitions[kept:]]
    return target, quota


def _assign_mixed(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    """Return the targets of all members, which are numbered in the order of the task."""
    group = _Mixed(task)
    if not group.topics:
        return {}
    yield from group.keep()
    yield from group.fill()
    yield from group.balance()
    assigned = {}
    for member_id, target in zip(task.members, group.targets, strict=True):
        assigned[member_id] = target.result()
        yield
    return assigned


class _Mixed:
    """An assignment being computed; members are numbers, owners are indexed by topic."""

    def __init__(self, task: AssignmentTask):
        self._members = list(task.members.values())
        self._subscribers: dict[bytes, list[int]] = defaultdict(list)
        for number, member in enumerate(self._members):
            for topic in member.topic_ids:
                self._subscribers[topic].append(number)
        counts = task.partition_counts
        self.topics = sorted(
            self._subscribers,
            key=lambda topic: (
                -counts[topic] / len(self._subscribers[topic]),
                len(self._subscribers[topic]),
                uuid_sort_key(topic),
            ),
        )
        self.targets = [Target(member.target) for member in self._members]
        self._sizes = [0] * len(self._members)
        self._owners = {topic: [_NOBODY] * counts[topic] for topic in self.topics}

    def keep(self) -> Steps[None]:
        """Let members keep the topics they still subscribe to."""
        for number, member in enumerate(self._members):
            subscribed = set(member.topic_ids)
            for topic, partitions in member.target.items():
                if topic not in subscribed:
                    self.targets[number].drop(topic)
                    continue
                self._sizes[number] += len(partitions)
                for partition in partitions:
                    self._owners[topic][partition] = number
            yield

    def fill(self) -> Steps[None]:
        """Give each free partition to the subscriber with the fewest partitions."""
        for topic in self.topics:
            free = [p for p, owner in enumerate(self._owners[topic]) if owner == _NOBODY]
            takers = _lightest(self._by_load(topic), self._sizes)
            for partition, (taker, _) in zip(free, takers, strict=False):
                self._give(topic, partition, taker)
                yield

    def balance(self) -> Steps[None]:
        """Move partitions until a whole round over the topics moves none, or `_ROUNDS` are over."""
        shared = [topic for topic in self.topics if len(self._subscribers[topic]) > 1]
        last_moved = None
        for _ in range(_ROUNDS):
            for topic in shared:
                if topic is last_moved:
                    return
                if (yield from self._balance_topic(topic)) or last_moved is None:
                    last_moved = topic

    def _balance_topic(self, topic: bytes) -> Steps[int]:
        members = self._by_load(topic)
        if self._sizes[members[-1]] - self._sizes[members[0]] <= 1:
            return 0
        owned: dict[int, list[int]] = defaultdict(list)
        for partition, owner in enumerate(self._owners[topic]):
            owned[owner].append(partition)
        givers = _Heaviest(members, self._sizes)
        takers = _lightest(members, self._sizes)
        low = self._sizes[members[0]] - 1
        moved = 0
        while givers.level - low > 1:
            giver = givers.next()
            while giver is not None and not owned[giver]:
                givers.exclude()
                giver = givers.next()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker, low = next(takers)
            if givers.level - low <= 1:
                break
            self._give(topic, partition, taker)
            moved += 1
            yield
        return moved

    def _by_load(self, topic: bytes) -> list[int]:
        return sorted(self._subscribers[topic], key=lambda number: (self._sizes[number], number))

    def _give(self, topic: bytes, partition: int, taker: int) -> None:
        owner = self._owners[topic][partition]
        if owner != _NOBODY:
            self.targets[owner].remove(topic, partition)
            self._sizes[owner] -= 1
        count, subscribers = len(self._owners[topic]), len(self._subscribers[topic])
        self.targets[taker].add(topic, partition, expected=-(-count // subscribers))
        self._owners[topic][partition] = taker
        self._sizes[taker] += 1


def _lightest(members: Sequence[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield members, sorted by size, in the order to give partitions to, with their level.

    Each yielded member gets one partition: all members at a level come before the level rises.
    """
    level = sizes[members[0]]
    end = 0
    while True:
        while end < len(members) and sizes[members[end]] == level:
            end += 1
        for member in members[:end]:
            yield member, level
        level += 1


class _Heaviest:
    """The members, sorted by size, in the order to take partitions from: `_lightest` reversed.

    Members without more partitions to give are excluded, and no longer block the members below
    them.
    """

    def __init__(self, members: list[int], sizes: list[int]):
        self._members = members
        self._sizes = sizes
        self._start = self._end = len(members)
        self._next = len(members) - 1
        self.level = sizes[members[-1]] + 1

    def next(self) -> int | None:
        """Return the next member to take from; None if there is none."""
        if self._next < self._start:
            self._descend()
        if self._next < 0:
            return None
        member = self._members[self._next]
        self._next -= 1
        return member

    def exclude(self) -> None:
        """Exclude the member that `next` returned last."""
        place, last = self._next + 1, self._end - 1
        members = self._members
        members[place], members[last] = members[last], members[place]
        self._end = last

    def _descend(self) -> None:
        if self._end <= self._start and self._start > 0:
            self.level = self._sizes[self._members[self._start - 1]]
        else:
            self.level -= 1
        while self._start > 0 and self._sizes[self._members[self._start - 1]] == self.level:
            self._start -= 1
        self._next = self._end - 1
