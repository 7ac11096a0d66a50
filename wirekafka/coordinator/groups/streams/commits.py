"""Checks the member epoch of commits and fetches of a streams group's offsets."""

from __future__ import annotations

from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    FetchAllOffsets,
    FetchOffsets,
)
from wirekafka.coordinator.groups.streams.group import StreamsGroup
from wirekafka.coordinator.groups.streams.member import StreamsMember
from wirekafka.errors import Error, KafkaError

_KNOWS_MEMBER_EPOCHS = 9
"""The OffsetCommit version that members of the streams protocol need."""


def check_commit(group: StreamsGroup, command: CommitOffsets | CommitTransactionOffsets) -> None:
    """Raise `KafkaError` unless the committer is a member in its epoch, or there are none.

    A member may commit with an earlier epoch for tasks it has owned since then.
    """
    epoch = command.generation_id
    if epoch < 0 and not group.members:
        return
    code = Error.STALE_MEMBER_EPOCH
    if isinstance(command, CommitTransactionOffsets):
        if command.is_from_outside and epoch == -1:
            return
        if not command.has_group_errors:
            code = Error.ILLEGAL_GENERATION
    member = group.members.get(command.member_id)
    if member is None:
        raise unknown_member(group.group_id, command.member_id)
    if isinstance(command, CommitOffsets) and command.version < _KNOWS_MEMBER_EPOCHS:
        raise KafkaError(
            Error.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the streams group "
            "protocol",
        )
    if epoch > member.epoch:
        raise KafkaError(
            code,
            f"Received member epoch {epoch} is newer than current member epoch {member.epoch}.",
        )
    if epoch < member.epoch:
        for offset in command.offsets:
            refusal = _refusal(group, member, epoch, (offset.topic, offset.partition))
            if refusal is not None:
                raise KafkaError(code, refusal)


def _refusal(
    group: StreamsGroup, member: StreamsMember, epoch: int, partition: tuple[str, int]
) -> str | None:
    """Return why a member may not commit a partition with an earlier epoch; None if it may."""
    topic, index = partition
    if group.topology is None:
        return "Topology is not available for offset commit validation."
    subtopology = group.topology.reader_of.get(topic)
    if subtopology is None:
        return f"Topic {topic} is not in the topology."
    since = member.assigned_at(subtopology, index)
    if since is None:
        return f"Task {subtopology}-{index} is not assigned or pending revocation for member."
    if epoch < since:
        return (
            f"Received member epoch {epoch} is older than assignment epoch {since} for task "
            f"{subtopology}-{index}."
        )
    return None


def check_fetch(group: StreamsGroup, command: FetchOffsets | FetchAllOffsets) -> None:
    """Raise `KafkaError` unless the client names no member, or a member in its epoch."""
    epoch = command.member_epoch
    if command.member_id is None and epoch < 0:
        return
    member = group.members.get(command.member_id or "")
    if member is None:
        raise unknown_member(group.group_id, command.member_id or "null")
    if epoch != member.epoch:
        raise KafkaError(
            Error.STALE_MEMBER_EPOCH,
            f"The received member epoch {epoch} does not match the expected member epoch "
            f"{member.epoch}.",
        )


def unknown_member(group_id: str, member_id: str) -> KafkaError:
    """Return the UNKNOWN_MEMBER_ID error for a member id."""
    return KafkaError(
        Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )
