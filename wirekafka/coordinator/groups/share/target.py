"""Computes the target assignment of a share group for a new epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wirekafka.coordinator.groups.assignment import (
    NO_ASSIGNMENT,
    Assignment,
    Unassignable,
    same_assignment,
)
from wirekafka.coordinator.groups.share.assignor import ShareTask, SharingMember, assign_simply
from wirekafka.coordinator.groups.share.group import ShareGroup
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.records import (
    ShareGroupRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
)
from wirekafka.coordinator.java_order import grown_capacity, strings_in_order
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import Error, KafkaError


class ShareTargets(NamedTuple):
    """The records that store new targets, and the target of the member that caused them."""

    records: Sequence[ShareGroupRecord]
    own: Assignment


class ShareEpoch(NamedTuple):
    """An epoch to compute targets for; `is_homogeneous` as in `ShareTask`."""

    epoch: int
    is_homogeneous: bool
    now_ms: int


def compute_share_targets(
    group: ShareGroup, member: ShareMember, at: ShareEpoch, topics: CoordinatedTopics
) -> ShareTargets:
    """Compute the targets of the group with `member`, which is new or has changed.

    Raises UNKNOWN_SERVER_ERROR if the assignor cannot.
    """
    task = _task(group, member, at.is_homogeneous, topics)
    try:
        targets = assign_simply(task)
    except Unassignable as reason:
        raise KafkaError(
            Error.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {at.epoch}: {reason}",
        ) from reason
    records: list[ShareGroupRecord] = []
    for member_id in task.members:
        new = targets.get(member_id, NO_ASSIGNMENT)
        old = group.targets.get(member_id)
        if old is None or not same_assignment(old, new):
            records.append(ShareTargetRecord.of(group.group_id, member_id, new))
    records.append(ShareTargetEpochRecord.of(group.group_id, at.epoch, at.now_ms))
    return ShareTargets(records, targets.get(member.member_id, NO_ASSIGNMENT))


def _task(
    group: ShareGroup, member: ShareMember, is_homogeneous: bool, topics: CoordinatedTopics
) -> ShareTask:
    members: dict[str, ShareMember] = {**group.members, member.member_id: member}
    ids_of: dict[frozenset[str], Sequence[bytes]] = {}
    counts: dict[bytes, int] = {}
    sharing: dict[str, SharingMember] = {}
    known_ids = group.member_ids_with(member.member_id)
    for member_id in strings_in_order(known_ids, grown_capacity(len(members))):
        each = members[member_id]
        # Its request may list the topics in another order than its record.
        is_stored = each is not member
        topic_ids = ids_of.get(each.topics) if is_stored else None
        if topic_ids is None:
            found = [
                topic
                for name in each.ordered_topics()
                if (topic := topics.by_name(name)) is not None
            ]
            counts.update((topic.id, topic.partition_count) for topic in found)
            topic_ids = [topic.id for topic in found]
            if is_stored:
                ids_of[each.topics] = topic_ids
        sharing[member_id] = SharingMember(topic_ids, group.target(member_id), bool(each.topics))
    return ShareTask(sharing, is_homogeneous, counts, _assignable(group))


def _assignable(group: ShareGroup) -> Mapping[bytes, frozenset[int]]:
    if group.stored is None:
        return {}
    return {id: frozenset(topic.partitions) for id, topic in group.stored.initialized.items()}
