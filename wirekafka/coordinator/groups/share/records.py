"""The records of a share group; a value of None is a tombstone."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.groups.assignment import Assignment
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.topics import StoredTopics
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.protocol.records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)


class ShareMemberRecord(NamedTuple):
    """The subscription and metadata of a member."""

    group_id: str
    member_id: str
    value: ShareGroupMemberMetadataValue | None

    @classmethod
    def of(cls, group_id: str, member: ShareMember) -> ShareMemberRecord:
        """Return the record of a member that is new or has changed."""
        return cls(group_id, member.member_id, member.metadata())


class ShareEpochRecord(NamedTuple):
    """The group epoch and the hash of its topics; the tombstone removes the group."""

    group_id: str
    value: ShareGroupMetadataValue | None

    @classmethod
    def of(cls, group_id: str, epoch: int, metadata_hash: int) -> ShareEpochRecord:
        """Return the record of a new epoch."""
        return cls(group_id, ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


class ShareTargetEpochRecord(NamedTuple):
    """The epoch that the target assignments are for, and when they were computed (KIP-1263)."""

    group_id: str
    value: ShareGroupTargetAssignmentMetadataValue | None

    @classmethod
    def of(cls, group_id: str, epoch: int, timestamp_ms: int) -> ShareTargetEpochRecord:
        """Return the record of new target assignments."""
        return cls(
            group_id,
            ShareGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            ),
        )


class ShareTargetRecord(NamedTuple):
    """A member's target assignment."""

    group_id: str
    member_id: str
    value: ShareGroupTargetAssignmentMemberValue | None

    @classmethod
    def of(cls, group_id: str, member_id: str, target: Assignment) -> ShareTargetRecord:
        """Return the record of a target that is new or has changed."""
        return cls(
            group_id,
            member_id,
            ShareGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    ShareGroupTargetAssignmentMemberValue.TopicPartition(
                        topic_id=topic, partitions=list(partitions)
                    )
                    for topic, partitions in target.items()
                ]
            ),
        )


class ShareCurrentRecord(NamedTuple):
    """The current assignment, epoch and state of a member."""

    group_id: str
    member_id: str
    value: ShareGroupCurrentMemberAssignmentValue | None

    @classmethod
    def of(cls, group_id: str, member: ShareMember) -> ShareCurrentRecord:
        """Return the record of a member whose assignment or epoch changed."""
        return cls(group_id, member.member_id, member.assignment())


class ShareTopicsRecord(NamedTuple):
    """The topics whose share partitions have a stored state, or are getting one."""

    group_id: str
    value: ShareGroupStatePartitionMetadataValue | None

    @classmethod
    def of(
        cls, group_id: str, stored: StoredTopics, topics: CoordinatedTopics
    ) -> ShareTopicsRecord:
        """Return the record of topics whose state has made progress."""
        return cls(group_id, stored.value(topics))


ShareGroupRecord: TypeAlias = (
    ShareMemberRecord
    | ShareEpochRecord
    | ShareTargetEpochRecord
    | ShareTargetRecord
    | ShareCurrentRecord
    | ShareTopicsRecord
)


def share_removal(group_id: str, member_id: str) -> tuple[ShareGroupRecord, ...]:
    """Return the tombstones that remove a member."""
    return (
        ShareCurrentRecord(group_id, member_id, None),
        ShareTargetRecord(group_id, member_id, None),
        ShareMemberRecord(group_id, member_id, None),
    )
