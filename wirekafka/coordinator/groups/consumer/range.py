"""The `range` assignor: each subscriber of a topic gets a run of adjacent partitions.

Topics with the same number of partitions are assigned alike, so that members can join them by key.
"""

from __future__ import annotations

from collections import Counter

from wirekafka.coordinator.groups.assignment import AssignedMember, Assignment, AssignmentTask
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.coordinator.java_order import sized_capacity, uuids_in_order


def assign_ranges(task: AssignmentTask) -> Steps[dict[str, Assignment]]:
    """Return the targets of all members; static members come first, by instance id.

    A static member thus keeps its partitions when it restarts.
    """
    if not task.members:
        return {}
    order = sorted(task.members, key=lambda id: _rank(id, task.members[id]))
    subscribed = {
        # Kafka reads the subscription of one member only if the group is homogeneous.
        member_id: task.members[order[0] if task.is_homogeneous else member_id].topic_ids
        for member_id in order
    }
    subscribers = Counter(topic for topic_ids in subscribed.values() for topic in topic_ids)
    runs = {
        topic: _Run(task.partition_counts[topic], count) for topic, count in subscribers.items()
    }
    targets: dict[str, Assignment] = {}
    for member_id, topic_ids in subscribed.items():
        taken = {topic: runs[topic].take() for topic in topic_ids}
        targets[member_id] = {
            topic: taken[topic]
            for topic in uuids_in_order(taken, sized_capacity(len(topic_ids)))
            if taken[topic]
        }
        yield
    return targets


def _rank(member_id: str, member: AssignedMember) -> tuple[bool, bytes]:
    # Java compares strings by UTF-16 code unit.
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


class _Run:
    """Hands out the partitions of a topic in order; the first members may get one more."""

    def __init__(self, partitions: int, subscribers: int):
        self._share, self._extra = divmod(partitions, subscribers)
        self._next = 0

    def take(self) -> range:
        start = self._next
        self._next += self._share + (self._extra > 0)
        self._extra -= self._extra > 0
        return range(start, self._next)
