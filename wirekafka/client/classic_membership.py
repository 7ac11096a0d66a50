"""A member of a classic group of any protocol: joins, assigns as the leader, heartbeats, leaves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from wirekafka.client.client import Client, CliError, check
from wirekafka.errors import Error
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wirekafka.protocol.sync_group import SyncGroupRequest, SyncGroupResponse

SESSION_TIMEOUT_MS = 30_000
REBALANCE_TIMEOUT_MS = 60_000
_HEARTBEATS_PER_SESSION = 10
REJOIN = frozenset(
    {
        Error.REBALANCE_IN_PROGRESS,
        Error.ILLEGAL_GENERATION,
        Error.UNKNOWN_MEMBER_ID,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors after which a member joins again."""


class SessionTimeoutRefused(CliError):
    """A session timeout beyond the bounds that the brokers have for it."""


class MemberProtocol(Protocol):
    """What the members of a group agree on."""

    protocol_type: str
    name: str

    def metadata(self) -> bytes:
        """What this member lets the leader know."""

    def assign(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """As the leader: the assignment of each member, from their metadata, by member id."""


class ClassicMembership:
    """A membership in a classic group."""

    def __init__(
        self,
        client: Client,
        group: str,
        protocol: MemberProtocol,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> None:
        self.member_id, self.generation = "", -1
        self._client, self._group, self._protocol = client, group, protocol
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._beaten_at = 0.0

    def join(self) -> bytes:
        """Join or rejoin the group; returns the assignment. Raises CliError."""
        while True:
            joined = self._join()
            mine = self._sync(joined) if joined else None
            if mine is not None:
                self._beaten_at = time.monotonic()
                return mine

    @property
    def heartbeat_every_s(self) -> float:
        """How often heartbeats are sent."""
        return self._session_timeout_ms / 1000 / _HEARTBEATS_PER_SESSION

    def must_rejoin(self) -> bool:
        """Send a heartbeat if one is due; returns whether the group rebalances."""
        if time.monotonic() - self._beaten_at < self.heartbeat_every_s:
            return False
        self._beaten_at = time.monotonic()
        response = self._client.coordinator(self._group).send(
            HeartbeatRequest(
                group_id=self._group, generation_id=self.generation, member_id=self.member_id
            ),
            HeartbeatResponse,
        )
        return self._is_lost(response.error_code)

    def leave(self) -> None:
        """Leave the group, so that other members need not wait for the session timeout."""
        member = LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(
            group_id=self._group, member_id=self.member_id, members=[member]
        )
        self._client.coordinator(self._group).send(request, LeaveGroupResponse)

    def _join(self) -> JoinGroupResponse | None:
        protocol = JoinGroupRequest.Protocol(
            name=self._protocol.name, metadata=self._protocol.metadata()
        )
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=self._protocol.protocol_type,
            protocols=[protocol],
        )
        response = self._client.coordinator(self._group).send(request, JoinGroupResponse)
        if response.error_code == Error.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return None
        if response.error_code == Error.INVALID_SESSION_TIMEOUT:
            raise SessionTimeoutRefused(
                f"group {self._group}: a session timeout of {self._session_timeout_ms} ms"
            )
        if self._is_lost(response.error_code):
            return None
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def _sync(self, joined: JoinGroupResponse) -> bytes | None:
        shares: Mapping[str, bytes] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            members = {each.member_id: bytes(each.metadata) for each in joined.members}
            shares = self._protocol.assign(members)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=self._protocol.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=share)
                for member, share in shares.items()
            ],
        )
        response = self._client.coordinator(self._group).send(request, SyncGroupResponse)
        return None if self._is_lost(response.error_code) else bytes(response.assignment)

    def _is_lost(self, error_code: int) -> bool:
        error = Error.of(error_code)
        if error not in REJOIN:
            check(error_code, f"group {self._group}")
            return False
        if error is Error.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        return True
