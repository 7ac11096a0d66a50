"""The `uniform` assignor for members that all subscribe to the same topics.

Shares differ by at most one partition, and members keep their partitions as far as possible.
"""

from __future__ import annotations

from typing import NamedTuple

from wirekafka.coordinator.consumer.assignment import (
    AssignedMember,
    Assignment,
    AssignmentTask,
    Target,
    Unassignable,
)
from wirekafka.coordinator.consumer.uniform_mixed import assign_mixed
from wirekafka.coordinator.java_order import copied_capacity, uuids_in_order
from wirekafka.coordinator.steps import Steps


def assign_uniformly(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    """Return the targets of all members, whether their subscriptions are alike or not."""
    if not task.members:
        return {}
    return (yield from _assign_alike(task) if task.is_homogeneous else assign_mixed(task))


class _Free(NamedTuple):
    """A partition without an owner."""

    topic: bytes
    partition: int


def _assign_alike(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    subscribed = next(iter(task.members.values())).topic_ids
    topic_ids = uuids_in_order(subscribed, copied_capacity(len(subscribed)))
    if not topic_ids:
        return {}
    free = [
        _Free(topic, partition)
        for topic in topic_ids
        for partition in range(task.partition_counts[topic])
        if partition not in task.assigned.get(topic, ())
    ]
    total = sum(task.partition_counts[topic] for topic in topic_ids)
    yield
    targets, room = yield from _keep(task, total, frozenset(topic_ids), free)
    remaining = iter(free)
    for member_id, count in room:
        target = targets[member_id]
        for _, (topic, partition) in zip(range(count), remaining, strict=False):
            target.add(topic, partition)
            yield
    if next(remaining, None) is not None:
        raise Unassignable("Partitions were left unassigned")
    assigned = {}
    for member_id, target in targets.items():
        assigned[member_id] = target.result()
        yield
    return assigned


def _keep(
    task: AssignmentTask, total: int, topic_ids: frozenset[bytes], free: list[_Free]
) -> Steps[tuple[dict[str, Target], list[tuple[str, int]]]]:
    """Let members keep their share and add the rest to `free`; returns the room per member.

    If the partitions cannot be divided evenly, as many members as partitions are left over may have
    one more: those that have it already, as long as enough such places remain for later members.
    """
    share, extras = divmod(total, len(task.members))
    targets: dict[str, Target] = {}
    room = []
    for index, (member_id, member) in enumerate(task.members.items()):
        may_have_extra = extras > 0
        targets[member_id], left = _keep_of(member, share + may_have_extra, topic_ids, free)
        if left and may_have_extra and len(task.members) - index > extras:
            left -= 1
            may_have_extra = False
        if left:
            room.append((member_id, left))
        extras -= may_have_extra
        yield
    return targets, room


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
        for partition in partitions[kept:]:
            target.remove(topic, partition)
            free.append(_Free(topic, partition))
    return target, quota
