"""The records of a streams group; a value of None is a tombstone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from wirekafka.coordinator.groups.streams.member import StreamsMember
from wirekafka.coordinator.groups.streams.tasks import Tasks, TaskSet, in_record_order
from wirekafka.protocol.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)

_TaskIds = StreamsGroupTargetAssignmentMemberValue.TaskIds
_Config = StreamsGroupMetadataValue.LastAssignmentConfig


class GroupVersion(NamedTuple):
    """The contents of the record of a group's epoch.

    `validated_epoch` is the epoch of the topology whose topics all exist, -1 if some are missing;
    `configs` are the options that the assignment depends on. The epochs of stored and failed
    descriptions (KIP-1331) are -1 unless a Kafka broker with a plugin has written them.
    """

    epoch: int = 1
    metadata_hash: int = 0
    validated_epoch: int = -1
    configs: Mapping[str, str] = {}
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1

    @classmethod
    def read(cls, value: StreamsGroupMetadataValue) -> GroupVersion:
        """Return the contents of a record."""
        return cls(
            value.epoch,
            value.metadata_hash,
            value.validated_topology_epoch,
            {config.key: config.value for config in value.last_assignment_configs or ()},
            value.stored_description_topology_epoch,
            value.failed_description_topology_epoch,
        )


class StreamsEpochRecord(NamedTuple):
    """The group epoch and its dependencies; the tombstone removes the group."""

    group_id: str
    value: StreamsGroupMetadataValue | None

    @classmethod
    def of(cls, group_id: str, version: GroupVersion) -> StreamsEpochRecord:
        """Return the record of a new epoch."""
        return cls(
            group_id,
            StreamsGroupMetadataValue(
                epoch=version.epoch,
                metadata_hash=version.metadata_hash,
                validated_topology_epoch=version.validated_epoch,
                last_assignment_configs=[
                    _Config(key=key, value=version.configs[key]) for key in sorted(version.configs)
                ],
                stored_description_topology_epoch=version.stored_description_epoch,
                failed_description_topology_epoch=version.failed_description_epoch,
            ),
        )


class StreamsMemberRecord(NamedTuple):
    """The metadata of a member."""

    group_id: str
    member_id: str
    value: StreamsGroupMemberMetadataValue | None

    @classmethod
    def of(cls, group_id: str, member: StreamsMember) -> StreamsMemberRecord:
        """Return the record of a member that is new or has changed."""
        return cls(group_id, member.member_id, member.metadata())


class StreamsTargetEpochRecord(NamedTuple):
    """The epoch that the targets are for, and when they were computed (KIP-1263)."""

    group_id: str
    value: StreamsGroupTargetAssignmentMetadataValue | None

    @classmethod
    def of(cls, group_id: str, epoch: int, timestamp_ms: int) -> StreamsTargetEpochRecord:
        """Return the record of new targets."""
        return cls(
            group_id,
            StreamsGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            ),
        )


class StreamsTargetRecord(NamedTuple):
    """A member's target."""

    group_id: str
    member_id: str
    value: StreamsGroupTargetAssignmentMemberValue | None

    @classmethod
    def of(cls, group_id: str, member_id: str, target: Tasks) -> StreamsTargetRecord:
        """Return the record of a target that is new or has changed."""
        return cls(
            group_id,
            member_id,
            StreamsGroupTargetAssignmentMemberValue(
                active_tasks=_write(target.active),
                standby_tasks=_write(target.standby),
                warmup_tasks=_write(target.warmup),
            ),
        )


class StreamsCurrentRecord(NamedTuple):
    """The current tasks, epoch and state of a member."""

    group_id: str
    member_id: str
    value: StreamsGroupCurrentMemberAssignmentValue | None

    @classmethod
    def of(cls, group_id: str, member: StreamsMember) -> StreamsCurrentRecord:
        """Return the record of a member whose tasks, epoch or state changed."""
        return cls(group_id, member.member_id, member.assignment())


class StreamsTopologyRecord(NamedTuple):
    """The topology of the group."""

    group_id: str
    value: StreamsGroupTopologyValue | None


StreamsRecord: TypeAlias = (
    StreamsEpochRecord
    | StreamsMemberRecord
    | StreamsTargetEpochRecord
    | StreamsTargetRecord
    | StreamsCurrentRecord
    | StreamsTopologyRecord
)


def removal(group_id: str, member_id: str) -> tuple[StreamsRecord, ...]:
    """Return the tombstones that remove a member."""
    return (
        StreamsCurrentRecord(group_id, member_id, None),
        StreamsTargetRecord(group_id, member_id, None),
        StreamsMemberRecord(group_id, member_id, None),
    )


def _write(tasks: TaskSet) -> list[_TaskIds]:
    return [
        _TaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in in_record_order(tasks)
    ]
