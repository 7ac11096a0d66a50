"""The common base of consumer, share and streams groups: the broker assigns partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, Self, TypeVar

from wirekafka.coordinator.groups.group import Group
from wirekafka.coordinator.java_order import FIRST_SLOTS, timeline_ordered, timeline_slots
from wirekafka.errors import Error, KafkaError

FIRST_EPOCH = 1
"""The epoch of a new group, and of its assignments."""


class ClientMember(Protocol):
    """The fields of members in all these groups."""

    @property
    def client_id(self) -> str:
        """The id that the client sends with each request."""

    @property
    def client_host(self) -> str:
        """The address of the client, with a `/` before it as Java prints one."""


M = TypeVar("M", bound=ClientMember)


class AssignedGroup(Group, Generic[M]):
    """A group whose members send heartbeats and get the assignment that the broker computed.

    All its state follows from records; only the `replay` methods change it.
    """

    def __init__(self, group_id: str):
        super().__init__(group_id)
        self.members: dict[str, M] = {}
        """The members by id; `add_member` adds one."""
        self.static_member_ids: dict[str, str] = {}
        """The member ids of static members by instance id; share groups have none."""
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch for which assignments were computed last."""
        self.assignment_timestamp_ms = 0
        """When assignments were computed last (KIP-1263); 0 for never or unknown."""
        self._slots = FIRST_SLOTS

    @abstractmethod
    def replay(self, record: Any) -> None:
        """Apply a record of the group."""

    def copy(self) -> Self:
        """Copy the group so that its containers can be changed independently."""
        copy = type(self)(self.group_id)
        for record in self.snapshot():
            copy.replay(record)
        copy._slots = self._slots
        return copy

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def member_count(self) -> int:
        """The number of its members."""
        return len(self.members)

    def clients(self) -> Iterable[tuple[str, str]]:
        """Return the client id and the host of each member, for monitoring."""
        return [(member.client_id, member.client_host) for member in self.members.values()]

    def check_deletion(self) -> None:
        """Raise NON_EMPTY_GROUP while there are members."""
        if self.members:
            raise KafkaError(Error.NON_EMPTY_GROUP)

    def check_room(self, member_id: str, instance_id: str | None, most: int) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if a member is new and there are `most` members already."""
        if len(self.members) < most:
            return
        if member_id not in self.members and instance_id not in self.static_member_ids:
            raise KafkaError(
                Error.GROUP_MAX_SIZE_REACHED,
                f"The {self.type_name} group has reached its maximum capacity of {most} members.",
            )

    def may_assign(self, interval_ms: int, now_ms: int) -> bool:
        """Whether `interval_ms` has passed since assignments were computed last; 0 is no limit."""
        return (
            self.assignment_timestamp_ms == 0
            or interval_ms == 0
            or now_ms >= self.assignment_timestamp_ms + interval_ms
        )

    def static_member(self, instance_id: str | None) -> M | None:
        """Return the member with an instance id."""
        if instance_id is None:
            return None
        member_id = self.static_member_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def member_ids(self) -> list[str]:
        """Return the ids of all members, in Kafka's iteration order."""
        return timeline_ordered(self.members, self._slots)

    def member_ids_with(self, member_id: str) -> list[str]:
        """Return the ids of all members and a new member, in Kafka's iteration order."""
        if member_id in self.members:
            return self.member_ids()
        slots = timeline_slots(self._slots, len(self.members))
        return timeline_ordered((*self.members, member_id), slots)

    def add_member(self, member_id: str, member: M) -> None:
        """Add a member, or replace the member with its id."""
        self._slots = timeline_slots(self._slots, len(self.members))
        self.members[member_id] = member
