"""Who may commit offsets for a group, and the records a commit becomes."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.coordinator.classic_group import ClassicGroup, GroupState
from wirekafka.coordinator.classic_member import ClassicMember
from wirekafka.coordinator.group_commands import (
    CommitOffsets,
    CommittedOffset,
    CommitTransactionOffsets,
    OffsetToCommit,
)
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.group_records import OffsetRecord
from wirekafka.coordinator.rebalance import Rebalances
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Outcome, Producer, Ticket

_TELLS_UNKNOWN_GROUPS = 9
"""The OffsetCommit version from which a client is told that its group is not known."""


class OffsetCommits:
    """Checks commits against their group; writes nothing, touches nothing but a session."""

    def __init__(self, config: GroupConfig, rebalances: Rebalances):
        self._max_length = config.offset_metadata_max_length
        self._rebalances = rebalances

    def commit(
        self, group: ClassicGroup | None, command: CommitOffsets, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Records for what is well-formed; raises what concerns the whole commit."""
        if group is not None:
            member = _committer(group, command)
            if member is not None:
                self._rebalances.restart_session(group, member, now_ms)
        elif command.generation_id >= 0:
            if command.version >= _TELLS_UNKNOWN_GROUPS:
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
            raise KafkaError(Error.ILLEGAL_GENERATION)
        expire_ms = -1 if command.retention_ms == -1 else now_ms + command.retention_ms
        records, errors = self._records(command.group_id, command.offsets, now_ms, expire_ms)
        return Outcome(records, ((ticket, errors),))

    def commit_in_transaction(
        self, group: ClassicGroup | None, command: CommitTransactionOffsets,
        ticket: Ticket, now_ms: int,
    ) -> Outcome:
        """As `commit`, but pending until the producer's transaction ends."""
        if not command.group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        if group is not None:
            # Producers older than KIP-447 do not say which member they act for.
            is_unchecked = group.state is GroupState.EMPTY and command.generation_id < 0
            if not is_unchecked and not _is_from_outside(command):
                _check_member(group, command)
        elif command.generation_id >= 0:
            raise KafkaError(Error.ILLEGAL_GENERATION)
        records, errors = self._records(command.group_id, command.offsets, now_ms, -1)
        return Outcome(
            records, ((ticket, errors),), Producer(command.producer_id, command.producer_epoch))

    def _records(
        self, group_id: str, offsets: Sequence[OffsetToCommit], now_ms: int, expire_ms: int
    ) -> tuple[list[OffsetRecord], list[Error]]:
        records: list[OffsetRecord] = []
        errors = []
        for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
            if _is_longer(metadata, self._max_length):
                errors.append(Error.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(Error.NONE)
            records.append(OffsetRecord(group_id, topic, partition, CommittedOffset(
                offset, leader_epoch, metadata, now_ms, expire_ms, topic_id)))
        return records, errors


def _committer(group: ClassicGroup, command: CommitOffsets) -> ClassicMember | None:
    """The member that commits, its session kept by it; None for somebody else who may."""
    if group.state is GroupState.EMPTY and command.generation_id < 0:
        return None
    if _is_from_outside(command):
        # Once there are members, only they know where the group is.
        raise KafkaError(Error.UNKNOWN_MEMBER_ID)
    member = _check_member(group, command)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # It is of this generation, but has not been given its partitions.
        raise KafkaError(Error.REBALANCE_IN_PROGRESS)
    return member


def _is_from_outside(command: CommitOffsets | CommitTransactionOffsets) -> bool:
    return (
        command.generation_id < 0 and not command.member_id and command.instance_id is None)


def _check_member(
    group: ClassicGroup, command: CommitOffsets | CommitTransactionOffsets
) -> ClassicMember:
    member = group.validate_member(command.member_id, command.instance_id)
    if command.generation_id != group.generation_id:
        raise KafkaError(Error.ILLEGAL_GENERATION)
    return member


def _is_longer(metadata: str, limit: int) -> bool:
    """Whether it has more UTF-16 code units, by which Java counts, than that."""
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata) > limit or len(metadata.encode("utf-16-be", "surrogatepass")) > 2 * limit
