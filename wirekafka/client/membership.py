"""A member of a classic consumer group: joins, assigns by range, heartbeats, commits, leaves."""

from __future__ import annotations

import time
from struct import Struct
from typing import TypeVar

from wirekafka.client.client import Client, check
from wirekafka.codec.message import Message
from wirekafka.errors import Error
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.protocol.records.groups_and_transactions import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from wirekafka.protocol.sync_group import SyncGroupRequest, SyncGroupResponse

SESSION_TIMEOUT_MS = 30_000
REBALANCE_TIMEOUT_MS = 60_000
_HEARTBEAT_EVERY_S = 3.0
_PROTOCOL = "range"
_VERSION = Struct(">h")
# From version 10 on, requests name topics by id; below 8, they name one group only.
_NAMED = 9
_REJOIN = frozenset(
    {
        Error.REBALANCE_IN_PROGRESS,
        Error.ILLEGAL_GENERATION,
        Error.UNKNOWN_MEMBER_ID,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

TopicPartition = tuple[str, int]
M = TypeVar("M", bound=Message)


class GroupMembership:
    """A membership in a group, subscribed to one topic."""

    def __init__(self, client: Client, group: str, topic: str) -> None:
        self._client, self._group, self._topic = client, group, topic
        self._member_id, self._generation = "", -1
        self._beaten_at = 0.0

    def join(self) -> list[int]:
        """Join or rejoin the group; returns the assigned partitions."""
        while True:
            joined = self._join()
            mine = self._sync(joined) if joined else None
            if mine is not None:
                self._beaten_at = time.monotonic()
                return mine

    def must_rejoin(self) -> bool:
        """Send a heartbeat if one is due; returns whether the group rebalances."""
        if time.monotonic() - self._beaten_at < _HEARTBEAT_EVERY_S:
            return False
        self._beaten_at = time.monotonic()
        response = self._client.coordinator(self._group).send(
            HeartbeatRequest(
                group_id=self._group, generation_id=self._generation, member_id=self._member_id
            ),
            HeartbeatResponse,
        )
        return self._is_lost(response.error_code)

    def committed(self, partitions: list[int]) -> dict[int, int]:
        """The group's committed offsets; partitions without one are left out."""
        return {
            index: offset
            for (_, index), offset in fetch_offsets(
                self._client, self._group, {self._topic: partitions}
            ).items()
        }

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit the next offset of each partition; a commit of an old generation is dropped."""
        if not offsets:
            return
        error = commit_offsets(
            self._client,
            self._group,
            {(self._topic, i): o for i, o in offsets.items()},
            (self._member_id, self._generation),
        )
        if error and error not in _REJOIN:
            check(error, f"group {self._group}")

    def leave(self) -> None:
        """Leave the group, so that other members need not wait for the session timeout."""
        member = LeaveGroupRequest.MemberIdentity(member_id=self._member_id)
        request = LeaveGroupRequest(
            group_id=self._group, member_id=self._member_id, members=[member]
        )
        self._client.coordinator(self._group).send(request, LeaveGroupResponse)

    def _join(self) -> JoinGroupResponse | None:
        subscription = ConsumerProtocolSubscription(topics=[self._topic])
        protocol = JoinGroupRequest.Protocol(
            name=_PROTOCOL, metadata=_VERSION.pack(1) + subscription.encode(1)
        )
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        response = self._client.coordinator(self._group).send(request, JoinGroupResponse)
        if response.error_code == Error.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return None
        if self._is_lost(response.error_code):
            return None
        self._member_id, self._generation = response.member_id, response.generation_id
        return response

    def _sync(self, joined: JoinGroupResponse) -> list[int] | None:
        shares: dict[str, list[int]] = {}
        if joined.leader == self._member_id and not joined.skip_assignment:
            shares = self._shares(joined)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=self._assignment(share))
                for member, share in shares.items()
            ],
        )
        response = self._client.coordinator(self._group).send(request, SyncGroupResponse)
        if self._is_lost(response.error_code):
            return None
        return self._mine(response.assignment)

    def _shares(self, joined: JoinGroupResponse) -> dict[str, list[int]]:
        """Assign consecutive partitions to each subscriber, as Kafka's range assignor."""
        subscribers = sorted(
            member.member_id
            for member in joined.members
            if self._topic in _decoded(ConsumerProtocolSubscription, member.metadata).topics
        )
        count = len(self._client.topic(self._topic).partitions)
        size, extra = divmod(count, len(subscribers))
        shares: dict[str, list[int]] = {member.member_id: [] for member in joined.members}
        start = 0
        for rank, member in enumerate(subscribers):
            end = start + size + (rank < extra)
            shares[member], start = list(range(start, end)), end
        return shares

    def _assignment(self, partitions: list[int]) -> bytes:
        part = ConsumerProtocolAssignment.TopicPartition(topic=self._topic, partitions=partitions)
        assignment = ConsumerProtocolAssignment(assigned_partitions=[part] if partitions else [])
        return _VERSION.pack(1) + assignment.encode(1)

    def _mine(self, assignment: bytes) -> list[int]:
        return [i for topic, i in decode_assignment(assignment) if topic == self._topic]

    def _is_lost(self, error_code: int) -> bool:
        error = Error(error_code)
        if error not in _REJOIN:
            check(error_code, f"group {self._group}")
            return False
        if error is Error.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        return True


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in an assignment of the consumer protocol; none if it is empty."""
    if not data:
        return []
    assignment = _decoded(ConsumerProtocolAssignment, data)
    return [(part.topic, i) for part in assignment.assigned_partitions for i in part.partitions]


def _decoded(kind: type[M], data: bytes) -> M:
    """Decode a consumer-protocol message after its version; newer versions may have more fields."""
    [version] = _VERSION.unpack_from(data)
    decode = kind.decoder(min(version, kind.versions.last))
    return decode(data, _VERSION.size, len(data))[0]


def fetch_offsets(
    client: Client, group: str, topics: dict[str, list[int]] | None
) -> dict[TopicPartition, int]:
    """Committed offsets of a group (None: all it has); partitions without one are left out."""
    asked = OffsetFetchRequest.Group
    wanted = asked(
        group_id=group,
        topics=None
        if topics is None
        else [
            asked.Topics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
    )
    response = client.coordinator(group).send(
        OffsetFetchRequest(groups=[wanted]), OffsetFetchResponse, most=_NAMED
    )
    [found] = response.groups
    check(found.error_code, f"group {group}")
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def commit_offsets(
    client: Client,
    group: str,
    offsets: dict[TopicPartition, int],
    member: tuple[str, int] = ("", -1),
) -> Error:
    """Commit offsets as a member (id, generation), or for an empty group; the first error."""
    kind = OffsetCommitRequest.Topic
    topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
    for (name, index), offset in offsets.items():
        topics.setdefault(name, []).append(
            kind.Partition(partition_index=index, committed_offset=offset)
        )
    response = client.coordinator(group).send(
        OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
        ),
        OffsetCommitResponse,
        most=_NAMED,
    )
    codes = [p.error_code for topic in response.topics for p in topic.partitions]
    return Error(next((code for code in codes if code), 0))
