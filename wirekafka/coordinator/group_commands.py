"""What can be asked of a group shard, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from wirekafka.errors import Error, KafkaError

NO_GENERATION = -1
NO_MEMBER = ""


class AssignorChoice(NamedTuple):
    """One protocol a member can follow: its name and what the member says in it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup. `fresh_id` is the random part of a member id, should one be given out."""

    group_id: str
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol_type: str
    protocols: tuple[AssignorChoice, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reason: str | None = None
    fresh_id: str
    needs_known_member_id: bool = False
    can_skip_assignment: bool = False


class JoinedMember(NamedTuple):
    """A member as its leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The answer to `Join`; `members` is filled in for the leader only (KIP-814)."""

    member_id: str
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class JoinRefused(KafkaError):
    """A refused join, with the member id that goes into the answer."""

    def __init__(self, error: Error, member_id: str = NO_MEMBER):
        super().__init__(error)
        self.member_id = member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup; `assignments` are by member id and come from the leader."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: dict[str, bytes]


class Synced(NamedTuple):
    """The answer to `Sync`."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class Heartbeat(NamedTuple):
    """Answered with None."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


class Leaver(NamedTuple):
    """One member that leaves, or is removed by its instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Leave(NamedTuple):
    """Answered with one `Error` per member."""

    group_id: str
    members: Sequence[Leaver]


class CommittedOffset(NamedTuple):
    """A position, as committed. Times in ms; -1 stands for no leader epoch or no expiry.

    The topic id is zero unless the client named the topic by id.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: bytes = bytes(16)


class OffsetToCommit(NamedTuple):
    """One partition of a commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)


class CommitOffsets(NamedTuple):
    """OffsetCommit: answered with one `Error` per offset, in order.

    A retention of -1 is the broker's. `version` is the request's: from 9 on an unknown group is
    told as such.
    """

    group_id: str
    generation_id: int
    member_id: str
    offsets: Sequence[OffsetToCommit]
    instance_id: str | None = None
    retention_ms: int = -1
    version: int = 10


class CommitTransactionOffsets(NamedTuple):
    """TxnOffsetCommit: offsets that count once the producer's transaction commits (KIP-447)."""

    group_id: str
    generation_id: int
    member_id: str
    offsets: Sequence[OffsetToCommit]
    instance_id: str | None = None
    producer_id: int = -1
    producer_epoch: int = -1


class FetchOffsets(NamedTuple):
    """OffsetFetch of some partitions: answered with a list of `FetchedOffset`, in order."""

    group_id: str
    partitions: Sequence[tuple[str, int]]
    require_stable: bool = False


class FetchAllOffsets(NamedTuple):
    """OffsetFetch of everything the group has: a list of `FetchedOffset`."""

    group_id: str
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    """A committed offset as it is told; offset -1 when there is none."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)
    error: Error = Error.NONE


class DeleteOffsets(NamedTuple):
    """OffsetDelete: answered with one `Error` per partition, in order."""

    group_id: str
    partitions: Sequence[tuple[str, int]]


class DeleteGroups(NamedTuple):
    """Answered with one `Error` per group, in order."""

    group_ids: Sequence[str]


class DescribeGroup(NamedTuple):
    """Answered with a `DescribedGroup`, or GROUP_ID_NOT_FOUND."""

    group_id: str


class DescribedMember(NamedTuple):
    """A member as consoles see it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group as consoles see it; protocol and metadata are told while it is stable."""

    state: str
    protocol_type: str
    protocol_name: str
    members: Sequence[DescribedMember]


class ListGroups(NamedTuple):
    """Answered with a list of `ListedGroup`; states are lower-case, none means all."""

    states: frozenset[str] = frozenset()


class ListedGroup(NamedTuple):
    """One line of a listing."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class ForgetTopics(NamedTuple):
    """Partitions were deleted: their offsets go too, as many as fit in a batch; answered None."""

    partitions: frozenset[tuple[str, int]]


GroupCommand: TypeAlias = (
    Heartbeat | CommitOffsets | FetchOffsets | FetchAllOffsets | Join | Sync | Leave
    | CommitTransactionOffsets | DeleteOffsets | DeleteGroups | DescribeGroup | ListGroups
    | ForgetTopics
)
