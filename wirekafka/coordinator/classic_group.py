"""A classic consumer group: its members, what they agree on, and the state it is in.

Hard is what `stored` holds: the last GroupMetadata record. Everything else is soft, and is lost
when the coordinator moves, as it is in Kafka: a generation counts once its assignment is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from wirekafka.coordinator.classic_member import ClassicMember
from wirekafka.coordinator.group_commands import (
    AssignorChoice,
    DescribedGroup,
    Joined,
    JoinedMember,
    ListedGroup,
    Synced,
)
from wirekafka.coordinator.java_hash import java_map_order
from wirekafka.coordinator.records import GroupMetadataValue
from wirekafka.coordinator.subscription import CONSUMER_PROTOCOL, subscribed_topics
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Ticket


class GroupState(Enum):
    """The states of a classic group, valued as clients are told them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY,
    },
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
}


class ClassicGroup:
    """One group. Dead groups are not here: the shard has forgotten them."""

    def __init__(self, group_id: str):
        self.group_id = group_id
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

    # Loading and storing

    @classmethod
    def load(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group as a GroupMetadata record tells it: stable, or empty."""
        group = cls(group_id)
        group.stored = value
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        if value.current_state_timestamp != -1:
            group.state_since_ms = value.current_state_timestamp
        for stored in value.members:
            group.add(ClassicMember.load(stored, value))
        group.leader_id = value.leader
        if group.members:
            group.state = group.previous_state = GroupState.STABLE
        group.subscribed_topics = group._subscribed_topics()
        return group

    def store(self, value: GroupMetadataValue) -> None:
        """The record was appended: a generation that waited for its assignment is stable."""
        self.stored = value
        if (self.state is GroupState.COMPLETING_REBALANCE
                and value.generation == self.generation_id and value.members):
            for stored in value.members:
                member = self.members.get(stored.member_id)
                if member is not None:
                    member.assignment = stored.assignment
            self.move_to(GroupState.STABLE, value.current_state_timestamp)

    def to_record(self, now_ms: int, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group to be stored, with the assignment of every member."""
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
        """Take a member in; the first one leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            assert member.instance_id not in self.static_member_ids, "a static member joins once"
            self.static_member_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supported.update(name for name, _ in member.protocols)
        self._awaiting_joins += member.join_ticket is not None
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, pending or not; another one leads if it did."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(name for name, _ in member.protocols)
            self._awaiting_joins -= member.join_ticket is not None
            if member.instance_id is not None:
                del self.static_member_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def rename_static(self, instance_id: str, new_id: str) -> ClassicMember:
        """Give a static member that came back a new id, in its old place."""
        old_id = self.static_member_ids[instance_id]
        self.static_member_ids[instance_id] = new_id
        member = self.members[old_id]
        member.member_id = new_id
        self.members = {
            new_id if member_id == old_id else member_id: each
            for member_id, each in self.members.items()
        }
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def set_protocols(
        self, member: ClassicMember, protocols: tuple[AssignorChoice, ...]
    ) -> None:
        """Replace what a member supports."""
        self._supported.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._supported.update(name for name, _ in protocols)

    def park_join(self, member: ClassicMember, ticket: Ticket) -> Ticket | None:
        """Let a join wait; returns the ticket of an earlier one by the same member."""
        earlier, member.join_ticket = member.join_ticket, ticket
        self._awaiting_joins += earlier is None
        return earlier

    def take_join(self, member: ClassicMember) -> Ticket | None:
        """The ticket of a waiting join, which then waits no more."""
        ticket, member.join_ticket = member.join_ticket, None
        self._awaiting_joins -= ticket is not None
        return ticket

    @property
    def awaiting_joins(self) -> int:
        """How many members wait for the rebalance to begin."""
        return self._awaiting_joins

    def validate_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member; raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID (KIP-345)."""
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

    def all_joined(self) -> bool:
        """Whether nobody is waited for before the next generation."""
        return len(self.members) == self._awaiting_joins and not self.pending_joins

    def elect_joined_leader(self) -> bool:
        """Have a member lead that has joined; False when there is none."""
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
        """The largest of all members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols could agree with everybody else."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return self.protocol_type == protocol_type and any(
            self._supported[name] == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str | None:
        """The protocol all support that most prefer."""
        count = len(self.members)
        votes = Counter(
            next(name for name, _ in member.protocols if self._supported[name] == count)
            for member in self.members.values()
        )
        return max(sorted(votes, key=java_map_order), key=votes.__getitem__, default=None)

    def is_consumers(self) -> bool:
        """Whether its members speak the consumers' protocol, so that subscriptions are known."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic, as far as its metadata tells."""
        if self.subscribed_topics is None:
            return self.is_consumers()
        return topic in self.subscribed_topics

    # States

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Enter a state, from one that leads to it."""
        assert self.state in _FROM[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    def can_rebalance(self) -> bool:
        """Whether a rebalance is not under way already."""
        return self.state is not GroupState.PREPARING_REBALANCE

    def begin_generation(self, now_ms: int) -> None:
        """Everybody who stays has joined: fix the protocol and wait for the assignment."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.move_to(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()

    # Answers

    def joined(self, member_id: str) -> Joined:
        """What a member of this generation is told; its leader hears of the others."""
        return Joined(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id or "",
            members=self.joined_members() if member_id == self.leader_id else (),
        )

    def joined_members(self) -> list[JoinedMember]:
        """What the leader assigns partitions by."""
        name = self.protocol_name or ""
        return [
            JoinedMember(member.member_id, member.instance_id, member.metadata(name))
            for member in self.members.values()
        ]

    def synced(self, member: ClassicMember) -> Synced:
        """What a member of a stable group is told."""
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def describe(self) -> DescribedGroup:
        """The group for consoles."""
        stable = self.state is GroupState.STABLE
        name = (self.protocol_name or "") if stable else ""
        return DescribedGroup(
            self.state.value, self.protocol_type or "", name,
            [member.describe(name if stable else None) for member in self.members.values()],
        )

    def listed(self) -> ListedGroup:
        """The group for a listing."""
        return ListedGroup(self.group_id, self.protocol_type or "", self.state.value, "classic")

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type is None:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL or self.protocol_name is None:
            return None
        return subscribed_topics(
            member.metadata(self.protocol_name) for member in self.members.values())
