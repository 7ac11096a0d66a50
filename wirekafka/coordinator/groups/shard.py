"""The machine of one partition of `__consumer_offsets`: its groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import Any

from wirekafka.coordinator.groups.classic.group import ClassicGroup
from wirekafka.coordinator.groups.classic.kind import ClassicKind
from wirekafka.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchAllOffsets,
    FetchedOffset,
    FetchOffsets,
    ForgetPartitions,
    GroupCommand,
    ListedGroup,
    ListGroups,
    QuietHeartbeat,
    TopicsChanged,
)
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.group import Group, GroupCounts, GroupKind, Turn
from wirekafka.coordinator.groups.long_work import LongWork, Process, WorkKey
from wirekafka.coordinator.groups.offset_record import OffsetRecord
from wirekafka.coordinator.groups.offsets import NO_EXPIRY, Offsets, expired_records, write_commit
from wirekafka.coordinator.groups.record_table import GroupRecordCodec
from wirekafka.coordinator.groups.steps import Steps
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Command, Outcome, Producer, Ticket
from wirekafka.runtime.renewal import Renewal
from wirekafka.runtime.timers import Timers

_EXPIRY = "offsets expiry"
_SOON_MS = 100
_TOMBSTONES = 1000
"""The number of tombstones per batch, which must not exceed the log's maximum size."""

_REPORTS_UNKNOWN_GROUPS = 9
"""The OffsetCommit version from which a client gets GROUP_ID_NOT_FOUND."""

MakeKind = Callable[[GroupConfig, dict[str, Group]], GroupKind[Any]]

KINDS: Sequence[MakeKind] = (ClassicKind,)
"""The kinds of groups; for unknown groups a command goes to the first kind that has it."""


class GroupShard:
    """A `TransactionalMachine` that replays the record types of `record_table`.

    The shard itself processes offsets and commands about groups of all kinds; a kind processes all
    others.
    """

    def __init__(
        self,
        config: GroupConfig,
        kinds: Sequence[MakeKind] = KINDS,
        counts: GroupCounts | None = None,
    ):
        self._counts = counts or GroupCounts()
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.timers = Timers()
        self._config = config
        self._kinds: dict[type[Group], GroupKind[Any]] = {}
        codec = GroupRecordCodec()
        codec.compression = config.compression
        self._work = LongWork(self._process, codec.encode_gradually)
        self._busy = self._work.group_ids
        self._commands: dict[type[Command[Any]], Process] = {
            CommitOffsets: self._commit,
            CommitTransactionOffsets: self._commit_in_transaction,
            FetchOffsets: self._fetch,
            FetchAllOffsets: self._fetch_all,
            DeleteOffsets: self._delete_offsets,
            DeleteGroups: self._delete_groups,
            ListGroups: self._list,
            ForgetPartitions: self._forget_partitions,
            TopicsChanged: self._topics_changed,
        }
        self._own_commands = frozenset(self._commands)
        self._timers: dict[type, Callable[[Any, Turn], Steps[None] | None]] = {str: self._expire}
        self._records: dict[type, Callable[[Any], None]] = {OffsetRecord: self._replay_offset}
        for make in kinds:
            kind = make(config, self.groups)
            self._kinds[kind.group] = kind
            self._commands = {**kind.commands, **self._commands}
            self._timers |= kind.timers
            self._records |= kind.records

    # The machine

    def decide(self, command: GroupCommand, ticket: Ticket[Any], now_ms: int) -> Outcome:
        """Respond to `command` or park it. Raises `KafkaError` to refuse it."""
        turn = Turn(now_ms, self.groups, self._counts)
        group_id = getattr(command, "group_id", "")
        if group_id in self._busy and type(command) not in self._own_commands:
            self._work.wait(command, ticket, turn)
            return turn
        steps = self._process(command, ticket, turn)
        return turn if steps is None else self._work.begin(group_id, steps, turn, ticket)

    def renew(self, command: QuietHeartbeat[Any], now_ms: int) -> Renewal[Any] | None:
        """Renew the session of a member that neither reports nor gets anything new, or None."""
        group_type, group_id = command.group_type, command.group_id
        group = self.groups.get(group_id)
        if group is None or type(group) is not group_type or group_id in self._busy:
            return None
        return self._kinds[group_type].renew(group, command, now_ms)

    def replay(self, record: Any) -> None:
        """Apply one record."""
        self._records[type(record)](record)

    def replay_pending(self, record: OffsetRecord, producer: Producer) -> None:
        """Apply an offset that takes effect only when its transaction commits."""
        assert isinstance(record, OffsetRecord), "only offsets are written in transactions"
        self._know(record.group_id)
        self.offsets.replay_pending(record, producer)

    def replay_end_marker(self, producer: Producer, committed: bool) -> None:
        """End the producer's transaction: its offsets take effect or are dropped."""
        self.offsets.replay_end_marker(producer, committed)

    def loaded(self, now_ms: int) -> None:
        """Start the sessions of loaded members, and the expiry of offsets."""
        turn = Turn(now_ms, self.groups, self._counts)
        self._schedule_expiry(turn)
        for kind in self._kinds.values():
            kind.is_live = True
        for group in self.groups.values():
            self._kinds[type(group)].loaded(group, turn)
        assert not turn.records and not turn.replies
        turn.take_effect(self.timers)

    def tick(self, key: Hashable, now_ms: int) -> Outcome:
        """Run the timers that are due: sessions, rebalances, expiry."""
        turn = Turn(now_ms, self.groups, self._counts)
        if isinstance(key, WorkKey):
            return self._work.go_on(key, turn)
        if getattr(key, "group_id", "") in self._busy:
            self._work.wait_with_timer(key, turn)
            return turn
        steps = self._timers[type(key)](key, turn)
        return turn if steps is None else self._work.begin_timer(key, steps, turn)

    def snapshot(self) -> Iterator[Any]:
        """Yield the records that rebuild the groups and offsets."""
        for group in self.groups.values():
            yield from group.snapshot()
        yield from self.offsets.snapshot()

    def _process(self, command: Any, ticket: Ticket[Any], turn: Turn) -> Steps[None] | None:
        """Process a command; returns the steps of a long command."""
        return self._decider(command)(command, ticket, turn)

    def _decider(self, command: GroupCommand) -> Process:
        """Return the processor of a command: the group's kind's, else the first kind's."""
        command_type = type(command)
        decider = self._commands[command_type]
        if len(self._kinds) > 1:
            group = self.groups.get(getattr(command, "group_id", ""))
            if group is not None:
                return self._kinds[type(group)].commands.get(command_type, decider)
        return decider

    # Offsets

    def _replay_offset(self, record: OffsetRecord) -> None:
        if record.committed is not None:
            self._know(record.group_id)
        self.offsets.replay(record)

    def _know(self, group_id: str) -> None:
        """Create a "simple" group, whose members assign themselves, if there is none."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def _commit(self, command: CommitOffsets, ticket: Ticket[list[Error]], turn: Turn) -> None:
        group = self.groups.get(command.group_id)
        if group is not None:
            self._kinds[type(group)].check_commit(group, command, turn)
        elif command.generation_id >= 0:
            if command.version >= _REPORTS_UNKNOWN_GROUPS:
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
            raise KafkaError(Error.ILLEGAL_GENERATION)
        expire_ms = NO_EXPIRY if command.retention_ms == -1 else turn.now_ms + command.retention_ms
        turn.answer(
            ticket,
            write_commit(
                turn,
                command.group_id,
                command.offsets,
                max_metadata=self._config.offset_metadata_max_length,
                expire_ms=expire_ms,
            ),
        )

    def _commit_in_transaction(
        self, command: CommitTransactionOffsets, ticket: Ticket[list[Error]], turn: Turn
    ) -> None:
        """Commit offsets that are pending until the producer's transaction ends."""
        if not command.group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = self.groups.get(command.group_id)
        if group is not None:
            self._kinds[type(group)].check_transactional_commit(group, command)
        elif command.generation_id >= 0:
            raise KafkaError(
                Error.GROUP_ID_NOT_FOUND if command.has_group_errors else Error.ILLEGAL_GENERATION
            )
        turn.producer = Producer(command.producer_id, command.producer_epoch)
        turn.answer(
            ticket,
            write_commit(
                turn,
                command.group_id,
                command.offsets,
                max_metadata=self._config.offset_metadata_max_length,
            ),
        )

    def _fetch(
        self, command: FetchOffsets, ticket: Ticket[list[FetchedOffset]], turn: Turn
    ) -> None:
        self._check_fetch(command)
        turn.answer(
            ticket, self.offsets.fetch(command.group_id, command.partitions, command.require_stable)
        )

    def _fetch_all(
        self, command: FetchAllOffsets, ticket: Ticket[list[FetchedOffset]], turn: Turn
    ) -> None:
        self._check_fetch(command)
        turn.answer(ticket, self.offsets.fetch_all(command.group_id, command.require_stable))

    def _check_fetch(self, command: FetchOffsets | FetchAllOffsets) -> None:
        group = self.groups.get(command.group_id)
        if group is not None:
            self._kinds[type(group)].check_fetch(group, command)

    def _delete_offsets(
        self, command: DeleteOffsets, ticket: Ticket[list[Error]], turn: Turn
    ) -> None:
        if not command.group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = self.groups.get(command.group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
        group.check_offset_deletion()
        errors = []
        for topic, partition in command.partitions:
            if group.is_subscribed_to(topic):
                errors.append(Error.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(Error.NONE)
            if self.offsets.has(group.group_id, topic, partition):
                turn.write(OffsetRecord(group.group_id, topic, partition, None))
                turn.counts.deletions += 1
        turn.answer(ticket, errors)

    # Groups of every kind

    def _list(self, command: ListGroups, ticket: Ticket[list[ListedGroup]], turn: Turn) -> None:
        listed = [group.listed() for group in self.groups.values()]
        turn.answer(
            ticket,
            [each for each in listed if not command.states or each.state.lower() in command.states],
        )

    def _delete_groups(
        self, command: DeleteGroups, ticket: Ticket[list[Error]], turn: Turn
    ) -> None:
        turn.answer(
            ticket,
            [self._delete_group(group_id, turn) for group_id in dict.fromkeys(command.group_ids)],
        )

    def _delete_group(self, group_id: str, turn: Turn) -> Error:
        group = self.groups.get(group_id)
        if group is None:
            return Error.GROUP_ID_NOT_FOUND
        try:
            group.check_deletion()
        except KafkaError as error:
            return error.error
        turn.records.extend(self.offsets.tombstones(group_id))
        turn.records.extend(group.tombstones())
        return Error.NONE

    # Metadata

    def _forget_partitions(
        self, command: ForgetPartitions, ticket: Ticket[None], turn: Turn
    ) -> None:
        gone = (
            record
            for group_id in command.group_ids
            for record in self.offsets.tombstones_of(group_id, command.partitions)
        )
        turn.records.extend(islice(gone, _TOMBSTONES))
        turn.answer(ticket, None)

    def _topics_changed(self, command: TopicsChanged, ticket: Ticket[None], turn: Turn) -> None:
        for group_id in command.group_ids:
            group = self.groups.get(group_id)
            if group is not None:
                self._kinds[type(group)].topics_changed(group, command.topics, turn)
        turn.answer(ticket, None)

    # Expiry

    def _schedule_expiry(self, turn: Turn) -> None:
        turn.schedule(_EXPIRY, turn.now_ms + self._config.offsets_retention_check_interval_ms)

    def _expire(self, key: str, turn: Turn) -> None:
        assert key == _EXPIRY
        self._schedule_expiry(turn)
        for group in self.groups.values():
            room = _TOMBSTONES - len(turn.records)
            if room <= 0:
                # The tombstones of this batch are applied by then: the next run expires the rest.
                turn.schedule(_EXPIRY, turn.now_ms + _SOON_MS)
                return
            gone = expired_records(
                group, self.offsets, turn.now_ms, self._config.offsets_retention_ms
            )[:room]
            turn.records.extend(gone)
            turn.counts.expirations += len(gone)
            if (
                group.expires
                and group.is_empty
                and not self.offsets.has_open(group.group_id)
                and len(gone) == self.offsets.count(group.group_id)
            ):
                turn.records.extend(group.tombstones())
