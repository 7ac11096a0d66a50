"""A member of a consumer group: its subscription, its epoch and its current assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from wirekafka.coordinator.java_order import (
    grown_capacity,
    integers_in_order,
    java_text_order,
    uuids_in_order,
)
from wirekafka.protocol.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
JOINING_EPOCH = 0

OwnedPartitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition, the epoch at which the partition was assigned to the member."""

NOTHING_OWNED: OwnedPartitions = {}

ClassicMetadata: TypeAlias = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
_TopicPartitions = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


class MemberState(IntEnum):
    """The progress of a member towards its target assignment, numbered as in records."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions before it enters the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that another member has not revoked."""
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        """Return the state of a record; UNKNOWN for a value that a later Kafka has added."""
        return _STATES.get(value, cls.UNKNOWN)


_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.
_STATES = {state.value: state for state in MemberState}


class ConsumerMember(NamedTuple):
    """A member, as its two records store it; `classic` is set for the classic protocol.

    `requested_topics` are the topics in the order of the request that is being processed: Kafka
    iterates over them in this order until they are stored, and in the record's order afterwards.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    requested_topics: tuple[str, ...] | None = None
    regex: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = NOTHING_OWNED
    revoking: OwnedPartitions = NOTHING_OWNED

    def is_stored_as(self, stored: ConsumerMember) -> bool:
        """Whether a member that was read from the records equals this member."""
        return self._replace(requested_topics=None) == stored

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its whole target assignment of this epoch."""
        return self.epoch == epoch and self.state is MemberState.STABLE

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """Return the member with the fields of a metadata record."""
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def metadata(self) -> ConsumerGroupMemberMetadataValue:
        """Return the value of the member's metadata record."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics, key=java_text_order),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """Return the member with the fields of a current-assignment record."""
        return self.moved(
            value.member_epoch,
            value.previous_member_epoch,
            MemberState.of(value.state),
            _read_owned(value.assigned_partitions, value.member_epoch),
            _read_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def moved(
        self,
        epoch: int,
        previous_epoch: int,
        state: MemberState,
        assigned: OwnedPartitions,
        revoking: OwnedPartitions = NOTHING_OWNED,
    ) -> ConsumerMember:
        """Return the member with another current assignment.

        The same as `_replace`, which takes three times as long, of the last fields.
        """
        member: ConsumerMember = _new(
            ConsumerMember,
            (*self[:_UNMOVED_FIELDS], epoch, previous_epoch, state, assigned, revoking),
        )
        return member

    def without_assignment(self) -> ConsumerMember:
        """Return the member after the tombstone of its current-assignment record."""
        return self._replace(
            epoch=LEAVING_EPOCH,
            previous_epoch=LEAVING_EPOCH,
            assigned=NOTHING_OWNED,
            revoking=NOTHING_OWNED,
        )

    def assignment(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Return the value of the member's current-assignment record."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_write_owned(self.assigned),
            partitions_pending_revocation=_write_owned(self.revoking),
        )

    def assigned_at(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch at which the member got a partition it owns or must revoke, or None."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch


_UNMOVED_FIELDS = ConsumerMember._fields.index("epoch")
assert ConsumerMember._fields[_UNMOVED_FIELDS:] == (
    "epoch",
    "previous_epoch",
    "state",
    "assigned",
    "revoking",
)


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]
) -> ClassicMetadata:
    """Return the JoinGroup metadata of a member of the classic protocol, as stored."""
    return ClassicMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[
            ClassicMetadata.ClassicProtocol(name=name, metadata=metadata)
            for name, metadata in protocols
        ],
    )


def owned_in_order(owned: OwnedPartitions) -> OwnedPartitions:
    """Return the partitions with topics in the order of a Java map that grew with them."""
    if len(owned) < 2:
        return owned
    return {topic: owned[topic] for topic in uuids_in_order(owned, grown_capacity(len(owned)))}


def same_owned(one: OwnedPartitions, other: OwnedPartitions) -> bool:
    """Whether both have the same partitions with the same epochs."""
    return one is other or one == other


def is_as_replayed(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether the replay of a member's new assignment would return this very state.

    `before` is the member as replayed. The order of partitions could differ.
    """
    return (
        after.assigned is before.assigned or _is_in_record_order(after.assigned)
    ) and _is_in_record_order(after.revoking)


def _is_in_record_order(owned: OwnedPartitions) -> bool:
    """Whether partitions of at most one topic are in the order of a record's partitions."""
    for partitions in owned.values():
        listed = list(partitions)
        if integers_in_order(listed, grown_capacity(len(listed))) != listed:
            return False
    return len(owned) < 2


def _read_owned(topics: Sequence[_TopicPartitions], epoch: int) -> OwnedPartitions:
    if not topics:
        return NOTHING_OWNED
    read = {}
    for topic in topics:
        epochs: Sequence[int] | None = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            # Brokers before 4.3 do not write the epochs.
            epochs = [max(epoch, 0)] * len(topic.partitions)
        by_partition = dict(zip(topic.partitions, epochs, strict=True))
        ordered = integers_in_order(by_partition, grown_capacity(len(by_partition)))
        if ordered != topic.partitions:
            by_partition = {partition: by_partition[partition] for partition in ordered}
        read[topic.topic_id] = by_partition
    return owned_in_order(read)


def _write_owned(owned: OwnedPartitions) -> list[_TopicPartitions]:
    return [
        _TopicPartitions(
            topic_id=topic, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic, epochs in owned.items()
    ]
