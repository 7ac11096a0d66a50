"""A classic consumer group: its members, their protocol, its generation and its state.

Only `stored`, the last GroupMetadata record, is durable. All other state is lost when the
coordinator moves, as in Kafka: a generation lasts once its assignment is stored.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any

from wirekafka.coordinator.groups.classic.member import ClassicMember
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    CommitTransactionOffsets,
    DescribedGroup,
    Joined,
    JoinedMember,
    ListedGroup,
    Synced,
)
from wirekafka.coordinator.groups.group import Expiry, Group
from wirekafka.coordinator.groups.steps import Steps, finish
from wirekafka.coordinator.java_hash import java_map_order
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.groups_and_transactions import GroupMetadataValue
from wirekafka.protocol.records.subscription import CONSUMER_PROTOCOL, subscribed_topics
from wirekafka.runtime.machine import Ticket


class GroupState(Enum):
    """The states of a classic group, with the names that DescribeGroups reports."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.EMPTY,
    },
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
}


class ClassicGroup(Group):
    """A classic group. There is no Dead state: the shard drops a deleted group."""

    type_name = "classic"

    def __init__(self, group_id: str):
        super().__init__(group_id)
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_since_ms: int | None = None
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_member_ids: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.subscribed_topics: frozenset[str] | None = None
        self.stored: GroupMetadataValue | None = None
        self._awaiting_joins = 0
        self._supported: Counter[str] = Counter()

    def copy(self) -> ClassicGroup:
        """Copy the group into a draft that can be changed independently."""
        draft = copy.copy(self)
        draft.members = self.members.copy()
        draft.static_member_ids = self.static_member_ids.copy()
        draft.pending_joins = self.pending_joins.copy()
        draft.pending_syncs = self.pending_syncs.copy()
        draft._supported = self._supported.copy()
        return draft

    # Checks and records

    @property
    def is_empty(self) -> bool:
        """Whether the group is in the state Empty."""
        return self.state is GroupState.EMPTY

    @property
    def member_count(self) -> int:
        """The number of members, without pending members that have only got an id."""
        return len(self.members)

    def clients(self) -> Iterable[tuple[str, str]]:
        """Return the client id and the host of each member, for monitoring."""
        return [(member.client_id, member.client_host) for member in self.members.values()]

    def check_deletion(self) -> None:
        """Raise NON_EMPTY_GROUP while there are members."""
        if not self.is_empty:
            raise KafkaError(Error.NON_EMPTY_GROUP)

    def check_offset_deletion(self) -> None:
        """Raise NON_EMPTY_GROUP while there are members with unknown subscriptions."""
        if not self.is_empty and not self.is_consumers():
            raise KafkaError(Error.NON_EMPTY_GROUP)

    def offset_expiry(self) -> Expiry | None:
        """Return the time from which offsets expire (KIP-211); None while none may expire.

        Without a protocol type (self-assigned members), each offset expires from its commit. The
        offsets of an empty group expire from the time it became empty. A stable group with known
        subscriptions loses only the offsets of topics it does not subscribe to.
        """
        if self.protocol_type is None:
            return Expiry(None)
        if self.is_empty:
            return Expiry(self.state_since_ms)
        is_known = self.is_consumers() and self.subscribed_topics is not None
        return Expiry(None) if self.state is GroupState.STABLE and is_known else None

    def snapshot(self) -> Iterable[GroupRecord]:
        """Yield the last GroupMetadata record, if there is one."""
        if self.stored is not None:
            yield GroupRecord(self.group_id, self.stored)

    def tombstones(self) -> Iterable[GroupRecord]:
        """Yield the tombstone of the GroupMetadata record."""
        yield GroupRecord(self.group_id, None)

    # Loading and storing

    @classmethod
    def load(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Build the group from a GroupMetadata record: stable if it has members, else empty."""
        return finish(cls.load_in_steps(group_id, value))

    @classmethod
    def load_in_steps(cls, group_id: str, value: GroupMetadataValue) -> Steps[ClassicGroup]:
        """Build the group as `load` does, but pause after each member."""
        group = cls(group_id)
        group.stored = value
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        if value.current_state_timestamp != -1:
            group.state_since_ms = value.current_state_timestamp
        for stored in value.members:
            group.add(ClassicMember.load(stored, value))
            yield
        group.leader_id = value.leader
        if group.members:
            group.state = group.previous_state = GroupState.STABLE
        group.subscribed_topics = group._subscribed_topics()
        return group

    def store(self, value: GroupMetadataValue) -> None:
        """Apply an appended record; a generation that waited for its assignment becomes stable."""
        self.stored = value
        if (
            self.state is GroupState.COMPLETING_REBALANCE
            and value.generation == self.generation_id
            and value.members
        ):
            for stored in value.members:
                member = self.members.get(stored.member_id)
                if member is not None:
                    self.change(member, assignment=stored.assignment)
            self.move_to(GroupState.STABLE, value.current_state_timestamp)

    def to_record(self, now_ms: int, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """Return the record that stores the group with the assignment of each member."""
        name = self.protocol_name
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=name,
            leader=self.leader_id,
            current_state_timestamp=now_ms if self.state_since_ms is None else self.state_since_ms,
            members=[
                member.to_record(name or "", assignments.get(member.member_id, b""))
                for member in self.members.values()
            ],
        )

    # Members

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first member becomes the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            assert member.instance_id not in self.static_member_ids, "a static member joins once"
            self.static_member_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supported.update(_names(member.protocols))
        self._awaiting_joins += member.join_ticket is not None
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, pending or not; a remaining member replaces it as leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(_names(member.protocols))
            self._awaiting_joins -= member.join_ticket is not None
            if member.instance_id is not None:
                del self.static_member_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def rename_static(self, instance_id: str, new_id: str) -> ClassicMember:
        """Give a static member that rejoined a new id; it keeps its position."""
        old_id = self.static_member_ids[instance_id]
        self.static_member_ids[instance_id] = new_id
        member = self.members[old_id]._replace(member_id=new_id)
        self.members = {
            each.member_id: each
            for each in (
                member if member_id == old_id else each for member_id, each in self.members.items()
            )
        }
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def change(self, member: ClassicMember, **changes: Any) -> ClassicMember:
        """Replace a member by a changed copy; the group must be a draft."""
        changed = self.members[member.member_id] = member._replace(**changes)
        return changed

    def set_protocols(
        self, member: ClassicMember, protocols: tuple[AssignorChoice, ...]
    ) -> ClassicMember:
        """Replace the protocols that a member supports."""
        self._supported.subtract(_names(member.protocols))
        self._supported.update(_names(protocols))
        return self.change(member, protocols=protocols)

    def park_join(self, member: ClassicMember, ticket: Ticket[Joined]) -> Ticket[Joined] | None:
        """Park a JoinGroup; returns the ticket of the same member's earlier JoinGroup."""
        self.change(member, join_ticket=ticket)
        self._awaiting_joins += member.join_ticket is None
        return member.join_ticket

    def take_join(self, member: ClassicMember) -> Ticket[Joined] | None:
        """Unpark the member's JoinGroup and return its ticket, if there is one."""
        if member.join_ticket is not None:
            self.change(member, join_ticket=None)
            self._awaiting_joins -= 1
        return member.join_ticket

    def park_sync(self, member: ClassicMember, ticket: Ticket[Synced]) -> Ticket[Synced] | None:
        """Park a SyncGroup; returns the ticket of the same member's earlier SyncGroup."""
        self.change(member, sync_ticket=ticket)
        return member.sync_ticket

    def take_sync(self, member: ClassicMember) -> Ticket[Synced] | None:
        """Unpark the member's SyncGroup and return its ticket, if there is one."""
        if member.sync_ticket is not None:
            self.change(member, sync_ticket=None)
        return member.sync_ticket

    @property
    def awaiting_joins(self) -> int:
        """The number of members with a parked JoinGroup."""
        return self._awaiting_joins

    def validate_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member; raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID (KIP-345)."""
        if instance_id is not None:
            current = self.static_member_ids.get(instance_id)
            if current is None:
                raise KafkaError(Error.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(Error.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(Error.UNKNOWN_MEMBER_ID)
        return member

    def committer(self, command: CommitOffsets) -> ClassicMember | None:
        """Return the member that commits; None for a permitted non-member. Raises `KafkaError`."""
        if self.is_empty and command.generation_id < 0:
            return None
        if command.is_from_outside:
            # While a group has members, only they may commit.
            raise KafkaError(Error.UNKNOWN_MEMBER_ID)
        member = self.validate_committer(command)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The member is in this generation but has no assignment yet.
            raise KafkaError(Error.REBALANCE_IN_PROGRESS)
        return member

    def validate_committer(
        self, command: CommitOffsets | CommitTransactionOffsets
    ) -> ClassicMember:
        """Return the member of the current generation that commits.

        Raises as `validate_member` does, and ILLEGAL_GENERATION.
        """
        member = self.validate_member(command.member_id, command.instance_id)
        if command.generation_id != self.generation_id:
            raise KafkaError(Error.ILLEGAL_GENERATION)
        return member

    def all_joined(self) -> bool:
        """Whether all members have a parked JoinGroup and no new member is expected."""
        return len(self.members) == self._awaiting_joins and not self.pending_joins

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; returns False if there is none."""
        leader = self.members.get(self.leader_id or "")
        if leader is None:
            return False
        if leader.join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols has one in common with all other members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return self.protocol_type == protocol_type and any(
            self._supported[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str | None:
        """Return the protocol that all members support and most prefer."""
        count = len(self.members)
        votes = Counter(
            next(name for name, _ in member.protocols if self._supported[name] == count)
            for member in self.members.values()
        )
        return max(sorted(votes, key=java_map_order), key=votes.__getitem__, default=None)

    def is_consumers(self) -> bool:
        """Whether the protocol type is "consumer", so that subscriptions can be decoded."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, as far as subscriptions are known."""
        if self.subscribed_topics is None:
            return self.is_consumers()
        return topic in self.subscribed_topics

    # States

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Enter a state; the current one must be a valid predecessor."""
        assert self.state in _FROM[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    def can_rebalance(self) -> bool:
        """Whether no rebalance is under way."""
        return self.state is not GroupState.PREPARING_REBALANCE

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the members that joined: choose its protocol."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()

    # Responses

    def joined(self, member_id: str) -> Joined:
        """Return the JoinGroup response for a member; the leader's has all members."""
        return Joined(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id or "",
            members=self.joined_members() if member_id == self.leader_id else (),
        )

    def joined_members(self) -> list[JoinedMember]:
        """Return the members with their metadata, from which the leader assigns partitions."""
        name = self.protocol_name or ""
        return [
            JoinedMember(member.member_id, member.instance_id, member.metadata(name))
            for member in self.members.values()
        ]

    def synced(self, member: ClassicMember) -> Synced:
        """Return the SyncGroup response for a member of a stable group."""
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def describe(self) -> DescribedGroup:
        """Return the group for DescribeGroups."""
        stable = self.state is GroupState.STABLE
        name = (self.protocol_name or "") if stable else ""
        return DescribedGroup(
            self.state.value,
            self.protocol_type or "",
            name,
            [member.describe(name if stable else None) for member in self.members.values()],
        )

    def listed(self) -> ListedGroup:
        """Return the group for ListGroups."""
        return ListedGroup(
            self.group_id, self.protocol_type or "", self.state.value, self.type_name
        )

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type is None:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol_name is None:
            return None
        return subscribed_topics(
            member.metadata(self.protocol_name) for member in self.members.values()
        )


def _names(protocols: Iterable[tuple[str, bytes]]) -> set[str]:
    """The names of a member's protocols: a member may send one several times."""
    return {name for name, _ in protocols}
