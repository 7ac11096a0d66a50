"""A member of a streams group: its process, its epoch and the tasks it owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from wirekafka.coordinator.groups.streams.tasks import (
    NOTHING_OWNED,
    OwnedTasks,
    TaskEpochs,
    TaskSet,
    in_record_order,
    read_tasks,
)
from wirekafka.coordinator.java_order import java_text_order
from wirekafka.protocol.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)

LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
JOINING_EPOCH = 0

_TaskIds = StreamsGroupCurrentMemberAssignmentValue.TaskIds


class TaskState(IntEnum):
    """The progress of a member towards its target, numbered as in records."""

    STABLE = 1
    """The member has the target of its epoch."""
    UNREVOKED_TASKS = 2
    """The member must revoke tasks before it enters the next epoch."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that other members have not revoked."""
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> TaskState:
        """Return the state of a record; UNKNOWN for a value that a later Kafka has added."""
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN


class ProcessEndpoint(NamedTuple):
    """The address at which a process serves interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member, as its two records store it.

    The process id is None while only the record of its tasks has been read.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str | None = None
    endpoint: ProcessEndpoint | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: TaskState = TaskState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    revoking: OwnedTasks = NOTHING_OWNED

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its whole target of this epoch."""
        return self.epoch == epoch and self.state is TaskState.STABLE

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        """Return the member with the fields of a metadata record."""
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else ProcessEndpoint(endpoint.host, endpoint.port),
            tags={tag.key: tag.value for tag in value.client_tags},
        )

    def metadata(self) -> StreamsGroupMemberMetadataValue:
        """Return the value of the member's metadata record."""
        kind = StreamsGroupMemberMetadataValue
        return kind(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id or "",
            user_endpoint=None
            if self.endpoint is None
            else kind.Endpoint(host=self.endpoint.host, port=self.endpoint.port),
            client_tags=[
                kind.KeyValue(key=key, value=self.tags[key])
                for key in sorted(self.tags, key=java_text_order)
            ],
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        """Return the member with the fields of a current-assignment record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=TaskState.of(value.state),
            assigned=OwnedTasks(
                _read_epochs(value.active_tasks, value.member_epoch),
                read_tasks(value.standby_tasks),
                read_tasks(value.warmup_tasks),
            ),
            revoking=OwnedTasks(
                _read_epochs(value.active_tasks_pending_revocation, value.member_epoch),
                read_tasks(value.standby_tasks_pending_revocation),
                read_tasks(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> StreamsMember:
        """Return the member after the tombstone of its current-assignment record."""
        return replace(
            self,
            epoch=LEAVING_EPOCH,
            previous_epoch=LEAVING_EPOCH,
            assigned=NOTHING_OWNED,
            revoking=NOTHING_OWNED,
        )

    def assignment(self) -> StreamsGroupCurrentMemberAssignmentValue:
        """Return the value of the member's current-assignment record."""
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            active_tasks=_write_epochs(self.assigned.active),
            standby_tasks=_write(self.assigned.standby),
            warmup_tasks=_write(self.assigned.warmup),
            active_tasks_pending_revocation=_write_epochs(self.revoking.active),
            standby_tasks_pending_revocation=_write(self.revoking.standby),
            warmup_tasks_pending_revocation=_write(self.revoking.warmup),
        )

    def assigned_at(self, subtopology: str, partition: int) -> int | None:
        """Return the epoch at which the member got an active task it owns or must revoke."""
        epoch = self.assigned.active.get(subtopology, {}).get(partition)
        return self.revoking.active.get(subtopology, {}).get(partition) if epoch is None else epoch


def _read_epochs(parts: Iterable[_TaskIds], epoch: int) -> TaskEpochs:
    read = {}
    for part in parts:
        epochs = part.assignment_epochs
        if epochs is None or len(epochs) != len(part.partitions):
            # Brokers before 4.3 do not write the epochs.
            epochs = [epoch] * len(part.partitions)
        read[part.subtopology_id] = dict(zip(part.partitions, epochs, strict=True))
    return read


def _write(tasks: TaskSet) -> list[_TaskIds]:
    return [
        _TaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in in_record_order(tasks)
    ]


def _write_epochs(tasks: TaskEpochs) -> list[_TaskIds]:
    return [
        _TaskIds(
            subtopology_id=subtopology,
            partitions=partitions,
            assignment_epochs=[tasks[subtopology][partition] for partition in partitions],
        )
        for subtopology, partitions in in_record_order(tasks)
    ]
