"""Classic groups in their shard: all commands but JoinGroup, timers, records."""

from __future__ import annotations

from typing import assert_never

from wirekafka.coordinator.groups.classic.group import ClassicGroup, GroupState
from wirekafka.coordinator.groups.classic.join import Joins
from wirekafka.coordinator.groups.classic.rebalance import JoinKey, Rebalances, SessionKey, SyncKey
from wirekafka.coordinator.groups.classic.records import GroupRecord
from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    DescribedGroup,
    DescribeGroup,
    FetchAllOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    JoinRefused,
    Leave,
    Leaver,
    Sync,
    Synced,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.group import Group, GroupKind, Turn
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket


class ClassicKind(GroupKind[ClassicGroup]):
    """Processes the commands, timers and records of classic groups."""

    group = ClassicGroup

    def __init__(self, config: GroupConfig, groups: dict[str, Group]):
        super().__init__(groups)
        self._config = config
        self._rebalances = Rebalances(config)
        self._joins = Joins(config, self._rebalances)
        self.commands = {
            Heartbeat: self.heartbeat,
            Join: self.join,
            Sync: self.sync,
            Leave: self.leave,
            DescribeGroup: self.describe,
        }
        self.timers = {
            SessionKey: self._session_over,
            JoinKey: self._join_over,
            SyncKey: self._sync_over,
        }
        self.records = {GroupRecord: self._replay}

    # Commands

    def heartbeat(self, command: Heartbeat, ticket: Ticket[None], turn: Turn) -> None:
        """Renew the member's session; REBALANCE_IN_PROGRESS makes it rejoin."""
        group = self._joined_group(command.group_id)
        member = group.validate_member(command.member_id, command.instance_id)
        if command.generation_id != group.generation_id:
            raise KafkaError(Error.ILLEGAL_GENERATION)
        if group.state is GroupState.EMPTY:
            raise KafkaError(Error.UNKNOWN_MEMBER_ID)
        self._rebalances.restart_session(group, member, turn)
        if group.state is GroupState.PREPARING_REBALANCE:
            turn.refuse(ticket, Error.REBALANCE_IN_PROGRESS)
        else:
            turn.answer(ticket, None)

    def join(self, command: Join, ticket: Ticket[Joined], turn: Turn) -> None:
        """Add the member to its group, which is created if it does not exist."""
        self._joins.check(command)
        known = self.groups.get(command.group_id)
        is_new = known is None or (not isinstance(known, ClassicGroup) and known.is_empty)
        if is_new:
            if command.member_id:
                raise JoinRefused(Error.UNKNOWN_MEMBER_ID, command.member_id)
            if known is not None:
                # An empty group of another kind is replaced.
                turn.records.extend(known.tombstones())
            group = turn.put(ClassicGroup(command.group_id))
        elif isinstance(known, ClassicGroup):
            group = turn.draft(known)
        else:
            raise JoinRefused(Error.INCONSISTENT_GROUP_PROTOCOL)
        try:
            self._joins.join(group, command, ticket, turn)
        except JoinRefused as refusal:
            turn.answer(ticket, refusal)
        if is_new and not any(isinstance(record, GroupRecord) for record in turn.records):
            # So that the empty group exists after a restart.
            turn.write(
                GroupRecord(
                    group.group_id,
                    ClassicGroup(group.group_id).to_record(
                        turn.now_ms if group.state_since_ms is None else group.state_since_ms, {}
                    ),
                )
            )

    def sync(self, command: Sync, ticket: Ticket[Synced], turn: Turn) -> None:
        """Respond to the request or park it; the leader's SyncGroup completes parked requests."""
        group = self._joined_group(command.group_id)
        member = group.validate_member(command.member_id, command.instance_id)
        if command.generation_id != group.generation_id:
            raise KafkaError(Error.ILLEGAL_GENERATION)
        if _differs(command.protocol_type, group.protocol_type) or _differs(
            command.protocol_name, group.protocol_name
        ):
            raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL)
        match group.state:
            case GroupState.EMPTY:
                raise KafkaError(Error.UNKNOWN_MEMBER_ID)
            case GroupState.PREPARING_REBALANCE:
                raise KafkaError(Error.REBALANCE_IN_PROGRESS)
            case GroupState.COMPLETING_REBALANCE:
                group = turn.draft(group)
                turn.refuse(group.park_sync(member, ticket), Error.REBALANCE_IN_PROGRESS)
                self._rebalances.synced(group, member.member_id, turn)
                if group.leader_id == member.member_id:
                    turn.counts.classic_rebalances += 1
                    self._rebalances.store(group, command.assignments, turn)
                    self._rebalances.hand_out(group, command.assignments, turn)
            case GroupState.STABLE:
                if member.member_id in group.pending_syncs:
                    self._rebalances.synced(turn.draft(group), member.member_id, turn)
                turn.answer(ticket, group.synced(member))
            case _:
                assert_never(group.state)

    def leave(self, command: Leave, ticket: Ticket[list[Error]], turn: Turn) -> None:
        """Remove members with at most one rebalance; responds with one error per member."""
        if not command.group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = self.groups.get(command.group_id)
        if not isinstance(group, ClassicGroup):
            turn.answer(ticket, [Error.UNKNOWN_MEMBER_ID] * len(command.members))
            return
        group = turn.draft(group)
        errors = [self._leave_one(group, leaver, turn) for leaver in command.members]
        if Error.NONE in errors:
            self._rebalances.after_removal(group, turn)
        turn.answer(ticket, errors)

    def describe(self, command: DescribeGroup, ticket: Ticket[DescribedGroup], turn: Turn) -> None:
        """Respond to DescribeGroups."""
        group = self.groups.get(command.group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise KafkaError(
                Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a classic group."
            )
        turn.answer(ticket, group.describe())

    # Loading

    def loaded(self, group: ClassicGroup, turn: Turn) -> None:
        """Start new sessions: members could not send heartbeats while the group was loaded."""
        for member in group.members.values():
            self._rebalances.restart_session(group, member, turn)
        if len(group.members) > self._config.max_size:
            self._rebalances.begin(turn.draft(group), turn)

    # Offsets

    def check_commit(self, group: ClassicGroup, command: CommitOffsets, turn: Turn) -> None:
        """Check the committer; a commit by a member renews its session."""
        member = group.committer(command)
        if member is not None:
            self._rebalances.restart_session(group, member, turn)

    def check_transactional_commit(
        self, group: ClassicGroup, command: CommitTransactionOffsets
    ) -> None:
        """Check the member if the producer names one (since KIP-447)."""
        is_unchecked = group.state is GroupState.EMPTY and command.generation_id < 0
        if not is_unchecked and not command.is_from_outside:
            group.validate_committer(command)

    def check_fetch(self, group: ClassicGroup, command: FetchOffsets | FetchAllOffsets) -> None:
        """Permit every fetch."""

    def _joined_group(self, group_id: str) -> ClassicGroup:
        """Return the classic group that the client names; raises `KafkaError`."""
        if not group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(Error.UNKNOWN_MEMBER_ID)
        return group

    def _leave_one(self, group: ClassicGroup, leaver: Leaver, turn: Turn) -> Error:
        member_id = leaver.member_id
        if not member_id:
            # An administrator removes a static member by its instance id alone.
            static_id = group.static_member_ids.get(leaver.instance_id or "")
            if leaver.instance_id is None or static_id is None:
                return Error.UNKNOWN_MEMBER_ID
            self._rebalances.drop(group, group.members[static_id], turn)
            return Error.NONE
        if member_id in group.pending_joins:
            group.remove(member_id)
            self._rebalances.forget_session(group, member_id, turn)
            return Error.NONE
        try:
            member = group.validate_member(member_id, leaver.instance_id)
        except KafkaError as error:
            return error.error
        self._rebalances.drop(group, member, turn)
        return Error.NONE

    # Timers

    def _session_over(self, key: SessionKey, turn: Turn) -> None:
        group = self.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            self._rebalances.session_over(turn.draft(group), key.member_id, turn)

    def _join_over(self, key: JoinKey, turn: Turn) -> None:
        group = self.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            self._rebalances.join_over(turn.draft(group), turn)

    def _sync_over(self, key: SyncKey, turn: Turn) -> None:
        group = self.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            self._rebalances.sync_over(turn.draft(group), turn)

    # Records

    def _replay(self, record: GroupRecord) -> None:
        group_id, value = record
        group = self.groups.get(group_id)
        if value is None:
            if isinstance(group, ClassicGroup):
                del self.groups[group_id]
        elif self.is_live and isinstance(group, ClassicGroup):
            group.store(value)
        else:
            self.groups[group_id] = ClassicGroup.load(group_id, value)


def _differs(requested: str | None, agreed: str | None) -> bool:
    return requested is not None and agreed is not None and requested != agreed
