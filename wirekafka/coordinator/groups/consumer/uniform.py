"""The `uniform` assignor for members that all subscribe to the same topics.

Shares differ by at most one partition, and members keep their partitions as far as possible.
"""

from __future__ import annotations

from typing import TypeAlias

from wirekafka.coordinator.groups.assignment import (
    AssignedMember,
    Assignment,
    AssignmentTask,
    Target,
    Unassignable,
)
from wirekafka.coordinator.groups.consumer.uniform_mixed import assign_mixed
from wirekafka.coordinator.groups.steps import MEMBERS_PER_STEP, Steps
from wirekafka.coordinator.java_order import copied_capacity, uuids_in_order


def assign_uniformly(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    """Return the targets of all members, whether their subscriptions are alike or not."""
    if not task.members:
        return {}
    return (yield from _assign_alike(task) if task.is_homogeneous else assign_mixed(task))


_PARTITIONS_PER_STEP = 16
"""How many partitions a member gets between two places."""

_TARGETS_PER_STEP = 4
"""How many changed targets are put in order between two places."""

_Free: TypeAlias = tuple[bytes, int]
"""A partition without an owner: topic id and index."""


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
    count, assigned = task.partition_counts[topic], task.assigned.get(topic, ())
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
