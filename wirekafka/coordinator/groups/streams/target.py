"""Computes the targets of a streams group for a new epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wirekafka.coordinator.groups.streams.config import standby_replicas
from wirekafka.coordinator.groups.streams.configure import ConfiguredTopology
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import StreamsMember
from wirekafka.coordinator.groups.streams.records import (
    StreamsRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
)
from wirekafka.coordinator.groups.streams.soft import NO_PROGRESS, TaskProgress
from wirekafka.coordinator.groups.streams.sticky import (
    SubtopologyTasks,
    TaskHolder,
    TaskProblem,
    assign_sticky,
)
from wirekafka.coordinator.groups.streams.tasks import NO_TASKS, Tasks, flatten, grouped
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order


class StreamsTargetEpoch(NamedTuple):
    """An epoch to compute targets for, and the inputs of the assignment."""

    epoch: int
    configured: ConfiguredTopology
    configs: Mapping[str, str]
    progress: Mapping[str, TaskProgress]
    now_ms: int


def compute_targets(
    group: StreamsGroup, updated: StreamsMember | None, at: StreamsTargetEpoch
) -> tuple[list[StreamsRecord], dict[str, Tasks]]:
    """Return the records of new targets, and the targets by member.

    `updated` is a member that is new or has changed; None if none has.
    """
    old_targets = targets_with(group, updated)
    members = _members_with(group, updated)
    targets = _assign(members, at)
    records: list[StreamsRecord] = [
        StreamsTargetRecord.of(group.group_id, member_id, targets[member_id])
        for member_id in members
        if targets[member_id] != old_targets.get(member_id)
    ]
    records.append(StreamsTargetEpochRecord.of(group.group_id, at.epoch, at.now_ms))
    return records, targets


def targets_with(group: StreamsGroup, updated: StreamsMember | None) -> Mapping[str, Tasks]:
    """Return the present targets; a static member takes over the replaced member's target."""
    before = _replaced_by(group, updated)
    if updated is None or before is None or before not in group.targets:
        return group.targets
    return {**group.targets, updated.member_id: group.targets[before]}


def _replaced_by(group: StreamsGroup, member: StreamsMember | None) -> str | None:
    """Return the id of the static member that a member replaces."""
    if member is None or member.instance_id is None:
        return None
    before = group.static_member_ids.get(member.instance_id)
    return None if before == member.member_id else before


def _members_with(group: StreamsGroup, updated: StreamsMember | None) -> dict[str, StreamsMember]:
    before = _replaced_by(group, updated)
    members = {id: group.members[id] for id in group.member_ids() if id != before}
    if updated is not None:
        members[updated.member_id] = updated
    order = strings_in_order(members, grown_capacity(len(members)))
    return {member_id: members[member_id] for member_id in order}


def _assign(members: Mapping[str, StreamsMember], at: StreamsTargetEpoch) -> dict[str, Tasks]:
    subtopologies = at.configured.subtopologies
    if not at.configured.is_ready or subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    return assign_sticky(
        TaskProblem(
            {
                id: TaskHolder(
                    member.process_id or "",
                    grouped(flatten(member.assigned.active)),
                    member.assigned.standby,
                    at.progress.get(id, NO_PROGRESS).offsets,
                )
                for id, member in members.items()
            },
            {
                id: SubtopologyTasks(subtopology.task_count, subtopology.is_stateful)
                for id, subtopology in subtopologies.items()
            },
            standby_replicas(at.configs),
        )
    )
