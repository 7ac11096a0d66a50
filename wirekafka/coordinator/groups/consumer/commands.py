"""The commands of consumer groups (KIP-848) and their replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from wirekafka.coordinator.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
)
from wirekafka.coordinator.groups.consumer.reconcile import Reported
from wirekafka.coordinator.java_order import strings_in_order
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Command, command

_CLIENT_MAKES_ID = 1
"""The ConsumerGroupHeartbeat version from which members choose their ids (KIP-1082)."""
_JAVA_SPACE = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""
_HASH_SET = 16


def all_of(topics: Iterable[str]) -> Iterable[str]:
    """Return all topics: the filter of a member that may describe every topic."""
    return topics


@command
class ConsumerHeartbeat(Command["ConsumerHeartbeatReply"]):
    """ConsumerGroupHeartbeat. The reply is a `ConsumerHeartbeatReply`.

    None and -1 mean that the field is unchanged. `fresh_id` becomes the id of a member that has
    none; `visible` returns the given topics that the member may describe.
    """

    group_id: str
    epoch: int
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Reported = None
    client_id: str = ""
    client_host: str = ""
    fresh_id: str = ""
    visible: Callable[[Iterable[str]], Iterable[str]] = all_of

    @property
    def is_joining(self) -> bool:
        """Whether the member joins or rejoins (epoch 0)."""
        return self.epoch == JOINING_EPOCH

    @property
    def is_leaving(self) -> bool:
        """Whether the member leaves, permanently or until a static member rejoins."""
        return self.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether all fields are set: the response then has the assignment in any case."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topics is not None or self.regex is not None)
            and self.owned is not None
        )


class ConsumerHeartbeatReply(NamedTuple):
    """The reply to `ConsumerHeartbeat`; the assignment is None if it is unchanged."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Sequence[tuple[bytes, Sequence[int]]] | None = None


@command
class DescribeConsumerGroup(Command["DescribedConsumerGroup"]):
    """ConsumerGroupDescribe of one group.

    The reply is a `DescribedConsumerGroup`, or GROUP_ID_NOT_FOUND.
    """

    group_id: str


class DescribedConsumerMember(NamedTuple):
    """A member with its topics, and its assignment and target by topic id and name."""

    member: ConsumerMember
    topics: list[str]
    assignment: Sequence[tuple[bytes, str, Sequence[int]]]
    target: Sequence[tuple[bytes, str, Sequence[int]]]


class DescribedConsumerGroup(NamedTuple):
    """A group as ConsumerGroupDescribe reports it."""

    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[DescribedConsumerMember]


def check_heartbeat(command: ConsumerHeartbeat, version: int, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, with Kafka's messages, for a bad request."""
    if version >= _CLIENT_MAKES_ID or command.epoch > 0 or command.epoch == LEAVING_EPOCH:
        _check_text(command.member_id, "MemberId can't be empty.")
    _check_text(command.group_id, "GroupId can't be empty.")
    _check_text(command.instance_id, "InstanceId can't be empty.")
    _check_text(command.rack_id, "RackId can't be empty.")
    if command.is_joining:
        _check_join(command)
    elif command.epoch == STATIC_LEAVING_EPOCH and command.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif command.epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if command.assignor is not None and command.assignor not in assignors:
        supported = ", ".join(strings_in_order(assignors, _HASH_SET))
        raise KafkaError(
            Error.UNSUPPORTED_ASSIGNOR,
            (
                f"ServerAssignor {command.assignor} is not supported. "
                f"Supported assignors: {supported}."
            ),
        )


def _check_join(command: ConsumerHeartbeat) -> None:
    if command.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if command.owned is None or command.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if command.topics is None and command.regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )


def _check_text(text: str | None, complaint: str) -> None:
    if text is not None and not text.strip(_JAVA_SPACE):
        raise _invalid(complaint)


def _invalid(complaint: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, complaint)
