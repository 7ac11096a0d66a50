"""A share group (KIP-932): the state that its records add up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from wirekafka.coordinator.groups.assigned_group import FIRST_EPOCH, AssignedGroup
from wirekafka.coordinator.groups.assignment import NO_ASSIGNMENT, Assignment, read_assignment
from wirekafka.coordinator.groups.commands import ListedGroup
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    ShareTopicsRecord,
    share_removal,
)
from wirekafka.coordinator.groups.share.subscriptions import ShareSubscriptions
from wirekafka.coordinator.groups.share.topics import StoredTopics
from wirekafka.coordinator.topics import NO_TOPICS
from wirekafka.errors import Error, KafkaError

_NO_ASSIGNMENT_EPOCH = -1
_SHARE = "share"
_EMPTY, _STABLE = "Empty", "Stable"


class ShareGroup(AssignedGroup[ShareMember]):
    """A share group. All state follows from records; only the `replay` methods change it."""

    type_name = _SHARE
    expires = False

    def __init__(self, group_id: str):
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.targets: dict[str, Assignment] = {}
        self.subscriptions = ShareSubscriptions()
        self.stored: StoredTopics | None = None
        """The topics of the group's `ShareTopicsRecord`; None without one."""
        self._is_target_complete: bool | None = True

    # The methods of `Group`

    @property
    def state(self) -> str:
        """The name of the state that clients see: share groups never rebalance."""
        return _STABLE if self.members else _EMPTY

    def listed(self) -> ListedGroup:
        """Return the group for ListGroups."""
        return ListedGroup(self.group_id, _SHARE, self.state, _SHARE)

    def check_offset_deletion(self) -> None:
        """Raise GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        raise not_a_consumer_group(self.group_id)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.subscriptions.topics

    def offset_expiry(self) -> None:
        """Return None: there are no committed offsets."""

    def is_affected_by(self, topics: frozenset[str]) -> bool:
        """Whether these topics may change the assignment."""
        return not topics.isdisjoint(self.subscriptions.topics)

    # Queries

    def target(self, member_id: str) -> Assignment:
        """Return a member's target assignment."""
        return self.targets.get(member_id, NO_ASSIGNMENT)

    @property
    def lacks_initialized(self) -> bool:
        """Whether the targets lack partitions that were initialized since they were computed."""
        if self._is_target_complete is None:
            self._is_target_complete = self._compare_targets()
        return not self._is_target_complete

    def _compare_targets(self) -> bool:
        if not self.members or self.stored is None:
            return True
        assigned: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return all(
            topic_id in assigned and assigned[topic_id] == set(topic.partitions)
            for topic_id, topic in self.stored.initialized.items()
            if topic.name in self.subscriptions.topics
        )

    # Records

    def snapshot(self) -> Iterator[ShareGroupRecord]:
        """Yield the records that rebuild the group."""
        for member in self.members.values():
            yield ShareMemberRecord.of(self.group_id, member)
        yield ShareEpochRecord.of(self.group_id, self.epoch, self.metadata_hash)
        for member_id, target in self.targets.items():
            yield ShareTargetRecord.of(self.group_id, member_id, target)
        yield ShareTargetEpochRecord.of(
            self.group_id, self.assignment_epoch, self.assignment_timestamp_ms
        )
        for member in self.members.values():
            yield ShareCurrentRecord.of(self.group_id, member)
        if self.stored is not None:
            # The names of deleting topics are not read back.
            yield ShareTopicsRecord.of(self.group_id, self.stored, NO_TOPICS)

    def tombstones(self) -> Iterator[ShareGroupRecord]:
        """Yield the records that delete the group."""
        removals = [share_removal(self.group_id, member_id) for member_id in self.member_ids()]
        yield from (current for current, _, _ in removals)
        yield from (target for _, target, _ in removals)
        yield ShareTargetEpochRecord(self.group_id, None)
        yield from (metadata for _, _, metadata in removals)
        yield ShareTopicsRecord(self.group_id, None)
        yield ShareEpochRecord(self.group_id, None)

    # Replay

    def replay(self, record: ShareGroupRecord) -> None:
        """Apply any record except the tombstone that removes the group."""
        self._is_target_complete = None
        match record:
            case ShareMemberRecord():
                self._replay_member(record)
            case ShareEpochRecord():
                assert record.value is not None, "the tombstone removes the group"
                self.epoch = record.value.epoch
                self.metadata_hash = record.value.metadata_hash
            case ShareTargetEpochRecord():
                value = record.value
                self.assignment_epoch = (
                    _NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
                )
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ShareTargetRecord():
                self._replay_target(record)
            case ShareCurrentRecord():
                self._replay_current(record)
            case ShareTopicsRecord():
                self.stored = None if record.value is None else StoredTopics.read(record.value)
            case _:
                assert_never(record)

    def _replay_member(self, record: ShareMemberRecord) -> None:
        old = self.members.get(record.member_id)
        if record.value is not None:
            member = old or ShareMember(member_id=record.member_id)
            self._put(old, member.with_metadata(record.value))
        elif old is not None:
            del self.members[record.member_id]
            self.subscriptions.change(old, None)

    def _replay_target(self, record: ShareTargetRecord) -> None:
        if record.value is None:
            self.targets.pop(record.member_id, None)
        else:
            self.targets[record.member_id] = read_assignment(
                (topic.topic_id, topic.partitions) for topic in record.value.topic_partitions
            )

    def _replay_current(self, record: ShareCurrentRecord) -> None:
        old = self.members.get(record.member_id)
        if record.value is not None:
            member = old or ShareMember(member_id=record.member_id)
            self._put(old, member.with_assignment(record.value))
        elif old is not None:
            self._put(old, old.without_assignment())

    def _put(self, old: ShareMember | None, member: ShareMember) -> None:
        self.add_member(member.member_id, member)
        self.subscriptions.change(old, member)


def not_a_consumer_group(group_id: str) -> KafkaError:
    """Return the error for requests of the offsets of a share group."""
    return KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
