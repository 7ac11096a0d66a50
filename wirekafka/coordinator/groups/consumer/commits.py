"""Checks the member epoch of commits and fetches of a consumer group's offsets."""

from __future__ import annotations

from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    FetchAllOffsets,
    FetchOffsets,
)
from wirekafka.coordinator.groups.consumer.group import ConsumerGroup
from wirekafka.coordinator.groups.consumer.heartbeat import unknown_member
from wirekafka.coordinator.groups.consumer.member import ConsumerMember
from wirekafka.errors import Error, KafkaError

_KNOWS_MEMBER_EPOCHS = 9
"""The OffsetCommit version that members of the consumer protocol need."""


def check_commit(group: ConsumerGroup, command: CommitOffsets | CommitTransactionOffsets) -> None:
    """Raise `KafkaError` unless the committer is a member in its epoch, or there are none.

    A member may commit with an earlier epoch for partitions it has owned since then (KIP-1251).
    """
    epoch = command.generation_id
    if epoch < 0 and not group.members:
        return
    has_group_errors = True
    if isinstance(command, CommitTransactionOffsets):
        if command.is_from_outside and epoch == -1:
            return
        has_group_errors = command.has_group_errors
    member = group.members.get(command.member_id)
    if member is None:
        raise unknown_member(group.group_id, command.member_id)
    if (
        isinstance(command, CommitOffsets)
        and member.classic is None
        and command.version < _KNOWS_MEMBER_EPOCHS
    ):
        raise KafkaError(
            Error.UNSUPPORTED_VERSION,
            (
                "OffsetCommit version 9 or above must be used by members using the consumer group "
                "protocol"
            ),
        )
    if epoch == member.epoch:
        return
    code = (
        Error.STALE_MEMBER_EPOCH
        if member.classic is None and has_group_errors
        else Error.ILLEGAL_GENERATION
    )
    name = "member epoch" if member.classic is None else "generation id"
    if epoch > member.epoch:
        raise KafkaError(
            code, f"Received {name} {epoch} is newer than current member epoch {member.epoch}."
        )
    for offset in command.offsets:
        since = member.assigned_at(offset.topic_id, offset.partition)
        place = f"{offset.topic}-{offset.partition}"
        if since is None:
            raise KafkaError(
                code, f"Partition {place} is not assigned or pending revocation for member."
            )
        if epoch < since:
            raise KafkaError(
                code,
                (
                    f"Received {name} {epoch} is older than assignment epoch {since} for partition "
                    f"{place}."
                ),
            )


def check_fetch(group: ConsumerGroup, command: FetchOffsets | FetchAllOffsets) -> None:
    """Raise `KafkaError` unless the client names no member, or a member in its epoch."""
    epoch = command.member_epoch
    if command.member_id is None and epoch < 0:
        return
    member = group.members.get(command.member_id or "")
    if member is None:
        raise unknown_member(group.group_id, command.member_id or "null")
    if epoch != member.epoch:
        raise _wrong_epoch(member, epoch)


def _wrong_epoch(member: ConsumerMember, epoch: int) -> KafkaError:
    if member.classic is None:
        return KafkaError(
            Error.STALE_MEMBER_EPOCH,
            (
                f"The received member epoch {epoch} does not match the expected member epoch "
                f"{member.epoch}."
            ),
        )
    return KafkaError(
        Error.ILLEGAL_GENERATION,
        (
            f"The received generation id {epoch} does not match the expected member epoch "
            f"{member.epoch}."
        ),
    )
