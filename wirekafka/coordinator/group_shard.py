"""The groups and offsets of one partition of `__consumer_offsets`, as a machine over its log."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import assert_never

from wirekafka.coordinator.classic_group import ClassicGroup, GroupState
from wirekafka.coordinator.classic_join import Joins
from wirekafka.coordinator.classic_members import Memberships
from wirekafka.coordinator.group_commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroup,
    FetchAllOffsets,
    FetchOffsets,
    ForgetTopics,
    GroupCommand,
    Heartbeat,
    Join,
    JoinRefused,
    Leave,
    ListedGroup,
    ListGroups,
    Sync,
)
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.group_records import GroupRecord, OffsetRecord, ShardRecord
from wirekafka.coordinator.offset_commits import OffsetCommits
from wirekafka.coordinator.offset_expiry import expired_records
from wirekafka.coordinator.offsets import Offsets
from wirekafka.coordinator.rebalance import JoinKey, Rebalances, SessionKey, SyncKey
from wirekafka.coordinator.timers import Timers
from wirekafka.coordinator.turn import Turn
from wirekafka.errors import Error, KafkaError
from wirekafka.replication.machine import Outcome, Producer, Ticket

_EXPIRY = "offsets expiry"
_SOON_MS = 100
_TOMBSTONES = 1000
"""How many go into one batch: more might be larger than the log takes."""


class GroupShard:
    """A `TransactionalMachine`: commands are `GroupCommand`s, records are `ShardRecord`s."""

    def __init__(self, config: GroupConfig):
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self._config = config
        self._timers = Timers()
        self._rebalances = Rebalances(config, self._timers)
        self._joins = Joins(config, self._rebalances)
        self._memberships = Memberships(self._rebalances)
        self._commits = OffsetCommits(config, self._rebalances)
        self._is_live = False

    # The machine

    def decide(self, command: GroupCommand, ticket: Ticket, now_ms: int) -> Outcome:
        """Answer `command` or park it. Raises `KafkaError` to refuse it."""
        turn = Turn(now_ms)
        if not self._is_live:
            self._go_live(turn)
        match command:
            case Heartbeat():
                self._memberships.heartbeat(self._member_group(command.group_id), command, turn)
                turn.answer(ticket, None)
            case CommitOffsets():
                group = self.groups.get(command.group_id)
                return self._commits.commit(group, command, ticket, now_ms)
            case FetchOffsets():
                turn.answer(ticket, self.offsets.fetch(
                    command.group_id, command.partitions, command.require_stable))
            case FetchAllOffsets():
                turn.answer(ticket, self.offsets.fetch_all(
                    command.group_id, command.require_stable))
            case Join():
                self._join(command, ticket, turn)
            case Sync():
                self._memberships.sync(
                    self._member_group(command.group_id), command, ticket, turn)
            case Leave():
                turn.answer(ticket, self._leave(command, turn))
            case CommitTransactionOffsets():
                group = self.groups.get(command.group_id)
                return self._commits.commit_in_transaction(group, command, ticket, now_ms)
            case _:
                self._administer(command, ticket, turn)
        return turn.outcome()

    def replay(self, record: ShardRecord) -> None:
        """Take in one record; the first command or tick starts the sessions of what was loaded."""
        match record:
            case OffsetRecord():
                if record.committed is not None and record.group_id not in self.groups:
                    # A "simple" group: it commits, and its members assign themselves.
                    self.groups[record.group_id] = ClassicGroup(record.group_id)
                self.offsets.replay(record)
            case GroupRecord():
                self._replay_group(record)
            case _:
                assert_never(record)

    def _replay_group(self, record: GroupRecord) -> None:
        group_id, value = record
        group = self.groups.get(group_id)
        if value is None:
            self.groups.pop(group_id, None)
        elif self._is_live and group is not None:
            group.store(value)
        else:
            self.groups[group_id] = ClassicGroup.load(group_id, value)

    def replay_pending(self, record: ShardRecord, producer: Producer) -> None:
        """Take in an offset that counts only once its transaction commits."""
        assert isinstance(record, OffsetRecord), "only offsets are written in transactions"
        if record.group_id not in self.groups:
            self.groups[record.group_id] = ClassicGroup(record.group_id)
        self.offsets.replay_pending(record, producer)

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """End the producer's transaction: its offsets take effect, or are dropped."""
        self.offsets.replay_end_marker(producer, committed)

    def deadline(self) -> int | None:
        """When `tick` is next due: at once after loading."""
        return self._timers.deadline() if self._is_live else 0

    def tick(self, now_ms: int) -> Outcome:
        """Do what fell due."""
        turn = Turn(now_ms)
        if not self._is_live:
            self._go_live(turn)
        for key in self._timers.take_due(now_ms):
            self._fire(key, turn)
        return turn.outcome()

    def snapshot(self) -> Iterator[ShardRecord]:
        """Records that rebuild the groups and offsets."""
        for group in self.groups.values():
            if group.stored is not None:
                yield GroupRecord(group.group_id, group.stored)
        yield from self.offsets.snapshot()

    # Loading and time

    def _go_live(self, turn: Turn) -> None:
        """Start the sessions of loaded members anew: they had no way to be heard of."""
        self._is_live = True
        self._schedule_expiry(turn.now_ms)
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalances.restart_session(group, member, turn.now_ms)
            if len(group.members) > self._config.max_size:
                self._rebalances.begin(group, turn)

    def _fire(self, key: Hashable, turn: Turn) -> None:
        match key:
            case SessionKey(group_id, member_id):
                if (group := self.groups.get(group_id)) is not None:
                    self._rebalances.session_over(group, member_id, turn)
            case JoinKey(group_id):
                if (group := self.groups.get(group_id)) is not None:
                    self._rebalances.join_over(group, turn)
            case SyncKey(group_id):
                if (group := self.groups.get(group_id)) is not None:
                    self._rebalances.sync_over(group, turn)
            case _:
                assert key == _EXPIRY
                self._expire(turn)

    def _schedule_expiry(self, now_ms: int) -> None:
        self._timers.schedule(_EXPIRY, now_ms + self._config.offsets_retention_check_interval_ms)

    def _expire(self, turn: Turn) -> None:
        self._schedule_expiry(turn.now_ms)
        for group in self.groups.values():
            room = _TOMBSTONES - len(turn.records)
            if room <= 0:
                # What is written now is gone by then, so the next look gets further.
                self._timers.schedule(_EXPIRY, turn.now_ms + _SOON_MS)
                return
            gone = expired_records(
                group, self.offsets, turn.now_ms, self._config.offsets_retention_ms)[:room]
            for record in gone:
                turn.write(record)
            if (group.state is GroupState.EMPTY and not self.offsets.has_open(group.group_id)
                    and len(gone) == self.offsets.count(group.group_id)):
                turn.write(GroupRecord(group.group_id, None))

    # Commands

    def _member_group(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Error.UNKNOWN_MEMBER_ID)
        return group

    def _join(self, command: Join, ticket: Ticket, turn: Turn) -> None:
        self._joins.check(command)
        group = self.groups.get(command.group_id)
        is_new = group is None
        if group is None:
            if command.member_id:
                raise JoinRefused(Error.UNKNOWN_MEMBER_ID, command.member_id)
            group = self.groups[command.group_id] = ClassicGroup(command.group_id)
        try:
            self._joins.join(group, command, ticket, turn)
        except JoinRefused as refusal:
            turn.answer(ticket, refusal)
        if is_new and not turn.records:
            # So that the group is there, and known to be empty, after a restart.
            turn.write(GroupRecord(group.group_id, ClassicGroup(group.group_id).to_record(
                turn.now_ms if group.state_since_ms is None else group.state_since_ms, {})))

    def _leave(self, command: Leave, turn: Turn) -> list[Error]:
        group = self.groups.get(command.group_id)
        if not command.group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        if group is None:
            return [Error.UNKNOWN_MEMBER_ID] * len(command.members)
        return self._memberships.leave(group, command, turn)

    def _administer(
        self,
        command: DeleteOffsets | DeleteGroups | DescribeGroup | ListGroups | ForgetTopics,
        ticket: Ticket,
        turn: Turn,
    ) -> None:
        match command:
            case DeleteOffsets():
                turn.answer(ticket, self._delete_offsets(command, turn))
            case DeleteGroups():
                turn.answer(ticket, [
                    self._delete_group(group_id, turn)
                    for group_id in dict.fromkeys(command.group_ids)])
            case DescribeGroup(group_id):
                turn.answer(ticket, self._known_group(group_id).describe())
            case ListGroups(states):
                turn.answer(ticket, self._list(states))
            case ForgetTopics(partitions):
                for record in islice(self.offsets.tombstones_of(partitions), _TOMBSTONES):
                    turn.write(record)
                turn.answer(ticket, None)
            case _:
                assert_never(command)

    def _known_group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def _list(self, states: frozenset[str]) -> list[ListedGroup]:
        return [
            group.listed() for group in self.groups.values()
            if not states or group.state.value.lower() in states
        ]

    def _delete_offsets(self, command: DeleteOffsets, turn: Turn) -> list[Error]:
        if not command.group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = self._known_group(command.group_id)
        if group.state is not GroupState.EMPTY and not group.is_consumers():
            raise KafkaError(Error.NON_EMPTY_GROUP)
        errors = []
        for topic, partition in command.partitions:
            if group.is_subscribed_to(topic):
                errors.append(Error.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(Error.NONE)
            if self.offsets.has(group.group_id, topic, partition):
                turn.write(OffsetRecord(group.group_id, topic, partition, None))
        return errors

    def _delete_group(self, group_id: str, turn: Turn) -> Error:
        group = self.groups.get(group_id)
        if group is None:
            return Error.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return Error.NON_EMPTY_GROUP
        for record in self.offsets.tombstones(group_id):
            turn.write(record)
        turn.write(GroupRecord(group_id, None))
        return Error.NONE


