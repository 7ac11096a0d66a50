"""The records of a consumer group; a value of None is a tombstone."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.groups.assignment import Assignment
from wirekafka.coordinator.groups.consumer.member import ConsumerMember
from wirekafka.coordinator.groups.consumer.subscriptions import ResolvedRegex
from wirekafka.coordinator.java_order import java_text_order
from wirekafka.protocol.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class ConsumerEpochRecord(NamedTuple):
    """The group epoch and the hash of its topics; the tombstone removes the group."""

    group_id: str
    value: ConsumerGroupMetadataValue | None

    @classmethod
    def of(cls, group_id: str, epoch: int, metadata_hash: int) -> ConsumerEpochRecord:
        """Return the record of a new epoch."""
        return cls(group_id, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


class ConsumerTopicsRecord(NamedTuple):
    """The topics as stored by Kafka 4.0; later brokers write only the tombstone."""

    group_id: str
    value: ConsumerGroupPartitionMetadataValue | None = None


class ConsumerMemberRecord(NamedTuple):
    """The subscription and metadata of a member."""

    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None

    @classmethod
    def of(cls, group_id: str, member: ConsumerMember) -> ConsumerMemberRecord:
        """Return the record of a member that is new or has changed."""
        return cls(group_id, member.member_id, member.metadata())


class ConsumerTargetEpochRecord(NamedTuple):
    """The epoch that the target assignments are for, and when they were computed (KIP-1263)."""

    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None

    @classmethod
    def of(cls, group_id: str, epoch: int, timestamp_ms: int) -> ConsumerTargetEpochRecord:
        """Return the record of new target assignments."""
        return cls(
            group_id,
            ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            ),
        )


class ConsumerTargetRecord(NamedTuple):
    """A member's target assignment."""

    group_id: str
    member_id: str
    value: ConsumerGroupTargetAssignmentMemberValue | None

    @classmethod
    def of(cls, group_id: str, member_id: str, target: Assignment) -> ConsumerTargetRecord:
        """Return the record of a target that is new or has changed."""
        return cls(
            group_id,
            member_id,
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    ConsumerGroupTargetAssignmentMemberValue.TopicPartition(
                        topic_id=topic, partitions=list(partitions)
                    )
                    for topic, partitions in target.items()
                ]
            ),
        )


class ConsumerCurrentRecord(NamedTuple):
    """The current assignment, epoch and state of a member."""

    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None

    @classmethod
    def of(cls, group_id: str, member: ConsumerMember) -> ConsumerCurrentRecord:
        """Return the record of a member whose assignment, epoch or state changed."""
        return cls(group_id, member.member_id, member.assignment())


class ConsumerRegexRecord(NamedTuple):
    """The topics that match a regular expression."""

    group_id: str
    regex: str
    value: ConsumerGroupRegularExpressionValue | None

    @classmethod
    def of(cls, group_id: str, regex: str, resolved: ResolvedRegex) -> ConsumerRegexRecord:
        """Return the record of a resolved regular expression."""
        return cls(
            group_id,
            regex,
            ConsumerGroupRegularExpressionValue(
                topics=sorted(resolved.topics, key=java_text_order),
                version=resolved.version,
                timestamp=resolved.timestamp_ms,
            ),
        )


ConsumerRecord: TypeAlias = (
    ConsumerEpochRecord
    | ConsumerTopicsRecord
    | ConsumerMemberRecord
    | ConsumerTargetEpochRecord
    | ConsumerTargetRecord
    | ConsumerCurrentRecord
    | ConsumerRegexRecord
)


def removal(group_id: str, member_id: str) -> tuple[ConsumerRecord, ...]:
    """Return the tombstones that remove a member."""
    return (
        ConsumerCurrentRecord(group_id, member_id, None),
        ConsumerTargetRecord(group_id, member_id, None),
        ConsumerMemberRecord(group_id, member_id, None),
    )
