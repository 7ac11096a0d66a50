"""The commands of share groups (KIP-932) and their replies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from wirekafka.coordinator.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH
from wirekafka.coordinator.groups.share.member import ShareMember
from wirekafka.coordinator.groups.share.topics import Partitions
from wirekafka.coordinator.share_state.states import ShareKey, StateInitialization
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Command, command

_LONGEST_MEMBER_ID = 36
_JAVA_SPACE = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""


@command
class ShareHeartbeat(Command["ShareHeartbeatReply"]):
    """ShareGroupHeartbeat. The reply is a `ShareHeartbeatReply`; None means unchanged."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_joining(self) -> bool:
        """Whether the member joins or rejoins (epoch 0)."""
        return self.epoch == JOINING_EPOCH


class ShareHeartbeatReply(NamedTuple):
    """The reply to `ShareHeartbeat`.

    The assignment is None if it is unchanged. `initializations` are the states of share partitions
    to initialize now; the result goes to the group as `StatesInitialized` or `StatesFailed`.
    """

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Sequence[tuple[bytes, Sequence[int]]] | None = None
    initializations: Sequence[StateInitialization] = ()


@command
class StatesInitialized(Command[None]):
    """Record that the state of these partitions is initialized. The reply is None."""

    group_id: str
    partitions: Partitions


@command
class StatesFailed(Command[None]):
    """Record that the initialization of these partitions failed. The reply is None."""

    group_id: str
    partitions: Partitions


@command
class DescribeShareGroup(Command["DescribedShareGroup"]):
    """ShareGroupDescribe of one group: a `DescribedShareGroup`, or GROUP_ID_NOT_FOUND."""

    group_id: str


class DescribedShareMember(NamedTuple):
    """A member with its topics, and its assignment by topic id and name."""

    member: ShareMember
    topics: Sequence[str]
    assignment: Sequence[tuple[bytes, str, Sequence[int]]]


class DescribedShareGroup(NamedTuple):
    """A group as ShareGroupDescribe reports it."""

    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[DescribedShareMember]


@command
class ListInitialized(Command[Partitions]):
    """List the partitions whose state is initialized.

    The reply is a mapping from topic id to partitions, which is empty for an unknown group.
    """

    group_id: str


@command
class AlterShareOffsets(Command[Sequence[StateInitialization]]):
    """AlterShareGroupOffsets: set the start offsets of these partitions.

    `offsets` are start offsets by topic id and partition; all partitions exist. `named` are the
    topics of the request with its existing partitions. The reply is a sequence of
    `StateInitialization`. Refused with NON_EMPTY_GROUP while there are members.
    """

    group_id: str
    offsets: Mapping[bytes, Mapping[int, int]]
    named: Mapping[bytes, tuple[str, Collection[int]]]


@command
class DeleteShareOffsets(Command[Partitions | None]):
    """Begin to delete the states of these topics' share partitions.

    `topics` are topic ids with partition counts. The reply maps the id of each topic that had a
    state to its partitions; it is None if the group never had states.
    """

    group_id: str
    topics: Mapping[bytes, int]


@command
class ShareOffsetsDeleted(Command[None]):
    """Record that the states of these topics, by id, are deleted. The reply is None."""

    group_id: str
    topic_ids: Collection[bytes]


@command
class DeleteShareStates(Command[Partitions]):
    """Begin to delete all states of a share group, before DeleteGroups deletes it.

    The reply has all partitions by topic id; it is empty for unknown groups and other kinds.
    """

    group_id: str


@command
class ForgetShareTopics(Command[None]):
    """Forget the states of topics that were deleted, given by id. The reply is None."""

    group_id: str
    topic_ids: Collection[bytes]


def keys_of(group_id: str, partitions: Partitions) -> list[ShareKey]:
    """Return the share partitions of a group."""
    return [ShareKey(group_id, topic, each) for topic in partitions for each in partitions[topic]]


def check_share_heartbeat(command: ShareHeartbeat) -> None:
    """Raise INVALID_REQUEST, with Kafka's messages, for a bad request."""
    units = len(command.member_id.encode("utf-16-be", "surrogatepass")) // 2
    if not 0 < units <= _LONGEST_MEMBER_ID:
        # Kafka reports no message here.
        raise KafkaError(Error.INVALID_REQUEST)
    _check_text(command.member_id, "MemberId can't be empty.")
    _check_text(command.group_id, "GroupId can't be empty.")
    _check_text(command.rack_id, "RackId can't be empty.")
    if command.is_joining:
        if not command.topics:
            raise _invalid("SubscribedTopicNames must be set in first request.")
    elif command.epoch < LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def _check_text(text: str | None, complaint: str) -> None:
    if text is not None and not text.strip(_JAVA_SPACE):
        raise _invalid(complaint)


def _invalid(complaint: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, complaint)
