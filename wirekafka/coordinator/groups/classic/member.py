"""A member of a classic group."""

from __future__ import annotations

from typing import NamedTuple

from wirekafka.coordinator.groups.commands import AssignorChoice, DescribedMember, Joined, Synced
from wirekafka.protocol.records.groups_and_transactions import GroupMetadataValue
from wirekafka.runtime.machine import Ticket


class ClassicMember(NamedTuple):
    """An immutable member, which copies of its group can share.

    `join_ticket` and `sync_ticket` are the tickets of parked requests. `is_new` is true until the
    member's first generation begins.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[AssignorChoice, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_ticket: Ticket[Joined] | None = None
    sync_ticket: Ticket[Synced] | None = None

    @classmethod
    def load(
        cls, stored: GroupMetadataValue.MemberMetadata, value: GroupMetadataValue
    ) -> ClassicMember:
        """Build the member from a GroupMetadata record."""
        # Version 0 has no rebalance timeout: the session timeout is used for both.
        rebalance_timeout_ms = stored.rebalance_timeout
        return cls(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=(
                stored.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms
            ),
            session_timeout_ms=stored.session_timeout,
            protocol_type=value.protocol_type,
            protocols=(AssignorChoice(value.protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )

    def to_record(self, protocol_name: str, assignment: bytes) -> GroupMetadataValue.MemberMetadata:
        """Return the member as part of a GroupMetadata record."""
        return GroupMetadataValue.MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")

    def describe(self, protocol_name: str | None) -> DescribedMember:
        """Return the member for DescribeGroups, with its metadata if a protocol is given."""
        return DescribedMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol_name is None else self.metadata(protocol_name),
            self.assignment,
        )

    def heartbeat_satisfied(self) -> bool:
        """Whether the session cannot expire because a request of the member is parked."""
        if self.is_new:
            return False
        return self.join_ticket is not None or self.sync_ticket is not None
