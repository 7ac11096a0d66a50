"""A streams group (KIP-1071): the state that its records add up to."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import assert_never

from wirekafka.coordinator.groups.assigned_group import AssignedGroup
from wirekafka.coordinator.groups.commands import ListedGroup
from wirekafka.coordinator.groups.group import Expiry
from wirekafka.coordinator.groups.streams.member import StreamsMember
from wirekafka.coordinator.groups.streams.records import (
    GroupVersion,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    removal,
)
from wirekafka.coordinator.groups.streams.tasks import NO_TASKS, TaskOwners, Tasks, read_tasks
from wirekafka.coordinator.groups.streams.topology import Topology

_PROTOCOL = "streams"
_NO_ASSIGNMENT_EPOCH = -1


class StreamsGroupState(Enum):
    """The states of a streams group, with the names that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(AssignedGroup[StreamsMember]):
    """A streams group. All state follows from records; only `replay` changes it."""

    type_name = "streams"

    def __init__(self, group_id: str):
        super().__init__(group_id)
        self.version = GroupVersion()
        self.topology: Topology | None = None
        self.targets: dict[str, Tasks] = {}
        self.owners = TaskOwners()
        self._state: StreamsGroupState | None = StreamsGroupState.EMPTY

    # The methods of `Group`

    def listed(self) -> ListedGroup:
        """Return the group for ListGroups."""
        return ListedGroup(self.group_id, _PROTOCOL, self.state.value, self.type_name)

    def check_offset_deletion(self) -> None:
        """Permit deletion at any time, except for topics that the topology reads."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topology of a group with members reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.reader_of

    def offset_expiry(self) -> Expiry:
        """Let each offset expire from its own commit."""
        return Expiry(since_ms=None)

    def is_affected_by(self, topics: frozenset[str]) -> bool:
        """Whether the topology uses one of these topics."""
        return self.topology is not None and not topics.isdisjoint(self.topology.topic_set)

    # Queries

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.version.epoch

    @property
    def state(self) -> StreamsGroupState:
        """The state of the group, computed when needed after a change."""
        if self._state is None:
            self._state = self._current_state()
        return self._state

    def target(self, member_id: str) -> Tasks:
        """Return a member's target."""
        return self.targets.get(member_id, NO_TASKS)

    # Records

    def snapshot(self) -> Iterator[StreamsRecord]:
        """Yield the records that rebuild the group."""
        for member in self.members.values():
            yield StreamsMemberRecord.of(self.group_id, member)
        yield StreamsEpochRecord.of(self.group_id, self.version)
        if self.topology is not None:
            yield StreamsTopologyRecord(self.group_id, self.topology.value)
        for member_id, target in self.targets.items():
            yield StreamsTargetRecord.of(self.group_id, member_id, target)
        yield StreamsTargetEpochRecord.of(
            self.group_id, self.assignment_epoch, self.assignment_timestamp_ms
        )
        for member in self.members.values():
            yield StreamsCurrentRecord.of(self.group_id, member)

    def tombstones(self) -> Iterator[StreamsRecord]:
        """Yield the records that delete the group."""
        removals = [removal(self.group_id, member_id) for member_id in self.member_ids()]
        for current, _, _ in removals:
            yield current
        for _, target, _ in removals:
            yield target
        yield StreamsTargetEpochRecord(self.group_id, None)
        for _, _, metadata in removals:
            yield metadata
        yield StreamsEpochRecord(self.group_id, None)
        yield StreamsTopologyRecord(self.group_id, None)

    # Replay

    def replay(self, record: StreamsRecord) -> None:
        """Apply any record except the tombstone that removes the group."""
        match record:
            case StreamsEpochRecord():
                assert record.value is not None, "the tombstone removes the group"
                self.version = GroupVersion.read(record.value)
            case StreamsTopologyRecord():
                self.topology = None if record.value is None else Topology(record.value)
            case StreamsMemberRecord():
                self._replay_member(record)
            case StreamsTargetEpochRecord():
                value = record.value
                self.assignment_epoch = (
                    _NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
                )
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case StreamsTargetRecord():
                self._replay_target(record)
            case StreamsCurrentRecord():
                self._replay_current(record)
            case _:
                assert_never(record)
        self._state = None

    def _replay_member(self, record: StreamsMemberRecord) -> None:
        old = self.members.get(record.member_id)
        if record.value is not None:
            self._put((old or _unknown_member(record.member_id)).with_metadata(record.value))
        elif old is not None:
            del self.members[old.member_id]
            self._disown(old)
            if old.instance_id is not None:
                self.static_member_ids.pop(old.instance_id, None)

    def _replay_target(self, record: StreamsTargetRecord) -> None:
        value = record.value
        if value is None:
            self.targets.pop(record.member_id, None)
        else:
            self.targets[record.member_id] = Tasks(
                read_tasks(value.active_tasks),
                read_tasks(value.standby_tasks),
                read_tasks(value.warmup_tasks),
            )

    def _replay_current(self, record: StreamsCurrentRecord) -> None:
        old = self.members.get(record.member_id)
        if record.value is not None:
            self._put((old or _unknown_member(record.member_id)).with_assignment(record.value))
        elif old is not None:
            self._put(old.without_assignment())

    def _put(self, member: StreamsMember) -> None:
        old = self.members.get(member.member_id)
        self.add_member(member.member_id, member)
        if old is not None:
            self._disown(old)
            if old.instance_id is not None:
                self.static_member_ids.pop(old.instance_id, None)
        if member.instance_id is not None:
            self.static_member_ids[member.instance_id] = member.member_id
        if member.process_id is not None:
            self.owners.add(member.assigned, member.process_id)
            self.owners.add(member.revoking, member.process_id)

    def _disown(self, member: StreamsMember) -> None:
        self.owners.remove(member.assigned, member.process_id)
        self.owners.remove(member.revoking, member.process_id)

    def _current_state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.version.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING


def _unknown_member(member_id: str) -> StreamsMember:
    """Return a member before the second of its two records is read."""
    return StreamsMember(member_id=member_id)
