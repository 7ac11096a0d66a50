"""The commands of a group shard and their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Command, command

NO_MEMBER = ""
_GROUP_ERRORS_IN_TRANSACTIONS_SINCE = 6


_Options = TypeVar("_Options")


class AssignorChoice(NamedTuple):
    """A protocol that a member supports: its name and the member's metadata for it."""

    name: str
    metadata: bytes


@command
class Join(Command["Joined"]):
    """JoinGroup. The reply is a `Joined`; refused with `JoinRefused`.

    `fresh_id` is the random part of a new member id.
    """

    _: KW_ONLY

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
    """A member in the JoinGroup response to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The reply to `Join`; `members` is set for the leader only (KIP-814)."""

    member_id: str
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class JoinRefused(KafkaError):
    """The refusal of a `Join`, with the member id of the response."""

    def __init__(self, error: Error, member_id: str = NO_MEMBER):
        super().__init__(error)
        self.member_id = member_id


@command
class Sync(Command["Synced"]):
    """SyncGroup. The reply is a `Synced`.

    `assignments` are by member id; only the leader sends them.
    """

    _: KW_ONLY

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: dict[str, bytes]


class Synced(NamedTuple):
    """The reply to `Sync`."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


@command
class Heartbeat(Command[None]):
    """Heartbeat. The reply is None."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


@command
class QuietHeartbeat(Command[_Options], Generic[_Options]):
    """The heartbeat of a consumer, share or streams member that reports only its epochs.

    Most heartbeats are quiet. A quiet heartbeat is passed to `renew`, which replies with
    `_Options`, the options of the group, if there is nothing new to report. Otherwise `renew`
    returns None: the heartbeat needs its own command.
    """

    group_type: type[Any]
    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    client_id: str
    client_host: str
    endpoint_epoch: int = 0


class Leaver(NamedTuple):
    """A member that leaves, or is removed by its instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


@command
class Leave(Command[list[Error]]):
    """LeaveGroup. The reply is a list of one `Error` per member, in order."""

    group_id: str
    members: Sequence[Leaver]


class CommittedOffset(NamedTuple):
    """A committed offset. Times are in ms; -1 stands for no leader epoch or no expiry.

    The topic id is zero unless the client named the topic by id.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: bytes = bytes(16)


class OffsetToCommit(NamedTuple):
    """The offset of one partition in a commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)


@command
class CommitOffsets(Command[list[Error]]):
    """OffsetCommit. The reply is a list of one `Error` per offset, in order.

    A retention of -1 is the broker's. `version` is the version of the request: versions before 9
    report an unknown group as ILLEGAL_GENERATION.
    """

    group_id: str
    generation_id: int
    member_id: str
    offsets: Sequence[OffsetToCommit]
    instance_id: str | None = None
    retention_ms: int = -1
    version: int = 10

    @property
    def is_from_outside(self) -> bool:
        """Whether the committer does not claim to be a member."""
        return self.generation_id < 0 and not self.member_id and self.instance_id is None


@command
class CommitTransactionOffsets(Command[list[Error]]):
    """TxnOffsetCommit: offsets that take effect when the transaction commits (KIP-447).

    The reply is a list of one `Error` per offset, in order. `version` is the version of the
    request: versions before 6 report an unknown group and a stale member epoch as
    ILLEGAL_GENERATION.
    """

    group_id: str
    generation_id: int
    member_id: str
    offsets: Sequence[OffsetToCommit]
    instance_id: str | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    version: int = 6

    @property
    def is_from_outside(self) -> bool:
        """Whether the producer does not say which member it acts for."""
        return self.generation_id < 0 and not self.member_id and self.instance_id is None

    @property
    def has_group_errors(self) -> bool:
        """Whether the response may have GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""
        return self.version >= _GROUP_ERRORS_IN_TRANSACTIONS_SINCE


@command
class FetchOffsets(Command["list[FetchedOffset]"]):
    """OffsetFetch of some partitions. The reply is a list of `FetchedOffset`, in order.

    Groups with server-side assignment check member id and epoch, which are None and -1 if the
    client sends none (KIP-848).
    """

    group_id: str
    partitions: Sequence[tuple[str, int]]
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


@command
class FetchAllOffsets(Command["list[FetchedOffset]"]):
    """OffsetFetch of all offsets of a group. The reply is a list of `FetchedOffset`."""

    group_id: str
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class FetchedOffset(NamedTuple):
    """A committed offset in an OffsetFetch response; offset -1 when there is none."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)
    error: Error = Error.NONE


@command
class DeleteOffsets(Command[list[Error]]):
    """OffsetDelete. The reply is a list of one `Error` per partition, in order."""

    group_id: str
    partitions: Sequence[tuple[str, int]]


@command
class DeleteGroups(Command[list[Error]]):
    """DeleteGroups. The reply is a list of one `Error` per group, in order."""

    group_ids: Sequence[str]


@command
class DescribeGroup(Command["DescribedGroup"]):
    """DescribeGroups of one group. The reply is a `DescribedGroup`, or GROUP_ID_NOT_FOUND."""

    group_id: str


class DescribedMember(NamedTuple):
    """A member as DescribeGroups reports it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group as DescribeGroups reports it.

    Protocol name and member metadata are empty unless the group is stable.
    """

    state: str
    protocol_type: str
    protocol_name: str
    members: Sequence[DescribedMember]


@command
class ListGroups(Command["list[ListedGroup]"]):
    """ListGroups. The reply is a list of `ListedGroup`.

    `states` are lower-case; an empty set matches all.
    """

    states: frozenset[str] = frozenset()


class ListedGroup(NamedTuple):
    """A group as ListGroups reports it."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@command
class ForgetPartitions(Command[None]):
    """Delete the offsets of deleted partitions, given by topic, in these groups.

    One command deletes as many as fit in a batch. The reply is None.
    """

    partitions: Mapping[str, frozenset[int]]
    group_ids: Sequence[str]


@command
class TopicsChanged(Command[None]):
    """Notify groups that topics of these names were created, deleted or extended.

    Groups that do not exist any more are skipped. The reply is None.
    """

    topics: frozenset[str]
    group_ids: Sequence[str]


GroupCommand: TypeAlias = (
    Heartbeat
    | CommitOffsets
    | FetchOffsets
    | FetchAllOffsets
    | Join
    | Sync
    | Leave
    | CommitTransactionOffsets
    | DeleteOffsets
    | DeleteGroups
    | DescribeGroup
    | ListGroups
    | ForgetPartitions
    | TopicsChanged
)
