"""Computes the target assignment of a consumer group for a new epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from wirekafka.coordinator.groups.assignment import (
    NO_ASSIGNMENT,
    AssignedMember,
    Assignment,
    AssignmentTask,
    Unassignable,
    same_assignment,
)
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.member import ConsumerMember
from wirekafka.coordinator.groups.consumer.range import assign_ranges
from wirekafka.coordinator.groups.consumer.records import (
    ConsumerRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetRecord,
)
from wirekafka.coordinator.groups.consumer.uniform import assign_uniformly
from wirekafka.coordinator.groups.steps import MEMBERS_PER_STEP, Steps
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import Error, KafkaError

Assign: TypeAlias = Callable[[AssignmentTask], Steps[dict[str, Assignment]]]

ASSIGNORS: Mapping[str, Assign] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
"""The server-side assignors, by name."""

_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.
_RECORDS_PER_STEP = 4
"""How many records of targets are made between two places."""


class NewTargets(NamedTuple):
    """The records that store new targets, and the target of the member that caused them."""

    records: Sequence[ConsumerRecord]
    own: Assignment


class TargetEpoch(NamedTuple):
    """An epoch to compute targets for; `is_homogeneous` as in `AssignmentTask`."""

    epoch: int
    assignor: str
    is_homogeneous: bool
    now_ms: int


def compute_targets(
    group: ConsumerGroup, member: ConsumerMember, at: TargetEpoch, topics: CoordinatedTopics
) -> Steps[NewTargets]:
    """Compute the targets of the group with `member`, which is new or has changed.

    Raises UNKNOWN_SERVER_ERROR if the assignor cannot.
    """
    old_targets = _targets_with(group, member)
    task = yield from _task(group, _members_with(group, member), old_targets, at, topics)
    try:
        targets = yield from ASSIGNORS[at.assignor](task)
    except Unassignable as reason:
        raise KafkaError(
            Error.UNKNOWN_SERVER_ERROR,
            (f"Failed to compute a new target assignment for epoch {at.epoch}: {reason}"),
        ) from reason
    records: list[ConsumerRecord] = []
    for index, member_id in enumerate(task.members):
        new = targets.get(member_id, NO_ASSIGNMENT)
        old = old_targets.get(member_id)
        if old is not new and (old is None or not same_assignment(old, new)):
            records.append(ConsumerTargetRecord.of(group.group_id, member_id, new))
            if not len(records) % _RECORDS_PER_STEP:
                yield
        elif not index % MEMBERS_PER_STEP:
            yield
    records.append(ConsumerTargetEpochRecord.of(group.group_id, at.epoch, at.now_ms))
    return NewTargets(records, targets.get(member.member_id, NO_ASSIGNMENT))


def _replaced_by(group: ConsumerGroup, member: ConsumerMember) -> str | None:
    """Return the id of the static member that a new member replaces."""
    before = group.static_member(member.instance_id)
    return None if before is None or before.member_id == member.member_id else before.member_id


def _targets_with(group: ConsumerGroup, member: ConsumerMember) -> Mapping[str, Assignment]:
    before = _replaced_by(group, member)
    if before is None or before not in group.targets:
        return group.targets
    return {**group.targets, member.member_id: group.targets[before]}


def _members_with(group: ConsumerGroup, member: ConsumerMember) -> dict[str, ConsumerMember]:
    before = _replaced_by(group, member)
    ids = [member_id for member_id in group.member_ids() if member_id != before]
    if member.member_id not in group.members:
        ids.append(member.member_id)
    known = group.members
    return {
        member_id: member if member_id == member.member_id else known[member_id]
        for member_id in strings_in_order(ids, grown_capacity(len(ids)))
    }


def _task(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Assignment],
    at: TargetEpoch,
    topics: CoordinatedTopics,
) -> Steps[AssignmentTask]:
    ids_of: dict[tuple[Any, ...], Sequence[bytes]] = {}
    counts: dict[bytes, int] = {}
    assigned: dict[str, AssignedMember] = {}
    for index, (member_id, member) in enumerate(members.items()):
        subscription = (member.topics, member.requested_topics, member.regex)
        topic_ids = ids_of.get(subscription)
        if topic_ids is None:
            found = [
                topic
                for name in group.subscriptions.topics_of(member)
                if (topic := topics.by_name(name)) is not None
            ]
            counts.update((topic.id, topic.partition_count) for topic in found)
            topic_ids = ids_of[subscription] = [topic.id for topic in found]
        assigned[member_id] = _new(
            AssignedMember, (member.instance_id, topic_ids, targets.get(member_id, NO_ASSIGNMENT))
        )
        if not index % MEMBERS_PER_STEP:
            yield
    return AssignmentTask(
        assigned, at.is_homogeneous, counts, group.target_owners, group.target_ends
    )
