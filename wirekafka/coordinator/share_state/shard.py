"""The share coordinator's machine: one instance per partition of `__share_group_state` (KIP-932).

A share partition's state is recorded as a snapshot, followed by updates that hold only what
changed, until after a number of updates the next snapshot is written. A snapshot makes all earlier
records of the share partition redundant.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from wirekafka.codec.compression import Codec
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.coordinator.java_order import (
    FIRST_SLOTS,
    grown_capacity,
    hash_ordered,
    timeline_hash_ordered,
    timeline_slots,
    uuid_hash_code,
)
from wirekafka.coordinator.share_state.batches import combined, is_valid
from wirekafka.coordinator.share_state.commands import (
    ShareCommand,
    StateDeletion,
    StateRefused,
    SummaryRead,
    TopicsDeletion,
)
from wirekafka.coordinator.share_state.records import ShareRecord, ShareSnapshot, ShareUpdate
from wirekafka.coordinator.share_state.states import (
    NO_COUNT,
    NO_EPOCH,
    NO_OFFSET,
    ShareKey,
    StateBatch,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
)
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import DEFAULT_MESSAGES, Error, KafkaError
from wirekafka.runtime.machine import Deciders, Outcome, Ticket
from wirekafka.runtime.timers import Timers

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

_COLD_SNAPSHOTS = "snapshots of inactive share partitions"
"""The machine's only timer."""

_PORTION_BYTES = 1 << 17
_KEY_BYTES, _BATCH_BYTES = 100, 24
"""Approximate sizes of a record and of its state batches, to limit the records of one step."""
_PORTION_TOMBSTONES = 1_000

_NEW_LEADER_EPOCH = 0
_NEW_STATE_EPOCH = 0

_NEGATIVE_PARTITION = "The partition id cannot be a negative number."
_NEGATIVE_LEADER_EPOCH = "The leader epoch cannot be a negative number."
_NEGATIVE_STATE_EPOCH = "The state epoch cannot be a negative number."
_UNINITIALIZED_READ = "Read operation on uninitialized share partition not allowed."
_UNINITIALIZED_WRITE = "Write operation on uninitialized share partition not allowed."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorConfig:
    """The broker options of the share coordinator, with Kafka's defaults."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
    prune_interval_ms: int = 300_000
    write_timeout_ms: int = 5_000
    compression: Codec = Codec.NONE
    append_linger_ms: int = 0
    """How long in ms records wait to share an append with later records; 0 and below: not at
    all."""

    @classmethod
    def of(cls, config: BrokerConfig) -> ShareCoordinatorConfig:
        """Return the part of a broker's configuration that the share coordinator uses."""
        return cls(
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            cold_snapshot_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
            prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
            write_timeout_ms=config.share_coordinator_write_timeout_ms,
            compression=Codec(config.share_coordinator_state_topic_compression_codec),
            append_linger_ms=config.share_coordinator_append_linger_ms,
        )


@dataclass(slots=True)
class _Stored:
    """The hard state of a share partition."""

    state: ShareSnapshot
    """The last snapshot with the updates since."""
    leader_epoch: int
    """The highest known; an initialization does not lower it."""
    state_epoch: int
    """The highest known."""
    updates: int = 0
    """Counted as Kafka does: only a snapshot that is written because of this count resets it."""


class ShareShard:
    """A `Machine` that replays `ShareRecord`s.

    The errors it raises have the messages of Apache Kafka.
    """

    def __init__(self, config: ShareCoordinatorConfig, topics: CoordinatedTopics):
        self._config = config
        self._topics = topics
        self._stored: dict[ShareKey, _Stored] = {}
        self._slots = FIRST_SLOTS
        self.timers = Timers()
        self._deciders: Deciders = {
            StateWrite: self._write,
            StateRead: self._read,
            StateInitialization: self._initialize,
            StateDeletion: self._delete,
            SummaryRead: self._summarize,
            TopicsDeletion: self._delete_topics,
        }

    # Machine

    def decide(self, command: ShareCommand, ticket: Ticket[Any], now_ms: int) -> Outcome:
        """Decide on one command; see `ShareStates` and `share_commands` for its reply."""
        return self._deciders[type(command)](command, ticket, now_ms)

    def replay(self, record: ShareRecord) -> None:
        """Set or change the state of a share partition, or remove it."""
        key, value = record.key, record.value
        if value is None:
            self._stored.pop(key, None)
            return
        self._slots = timeline_slots(self._slots, len(self._stored))
        stored = self._stored.get(key)
        if isinstance(value, ShareUpdate):
            self._replay_update(key, value, stored)
        elif stored is None:
            self._stored[key] = _Stored(value, value.leader_epoch, value.state_epoch)
        else:
            stored.state = value
            stored.leader_epoch = max(stored.leader_epoch, value.leader_epoch)
            stored.state_epoch = max(stored.state_epoch, value.state_epoch)
            if stored.updates >= self._config.updates_per_snapshot:
                stored.updates = 0

    def loaded(self, now_ms: int) -> None:
        """Start the interval between snapshots of inactive share partitions."""
        self.timers.schedule(_COLD_SNAPSHOTS, now_ms + self._config.cold_snapshot_interval_ms)

    def tick(self, key: Hashable, now_ms: int) -> Outcome:
        """Write snapshots of share partitions without recent changes, so that pruning goes on."""
        interval_ms = self._config.cold_snapshot_interval_ms
        outcome = Outcome()
        size_bytes = 0
        for key_, state in self._inactive(now_ms - interval_ms):
            if size_bytes > _PORTION_BYTES:
                outcome.schedule(key, now_ms)
                return outcome
            size_bytes += _KEY_BYTES + _BATCH_BYTES * len(state.batches)
            outcome.write(
                ShareRecord(
                    key_, state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_ms=now_ms)
                )
            )
        outcome.schedule(key, now_ms + interval_ms)
        return outcome

    def snapshot(self) -> Iterable[ShareRecord]:
        """One snapshot per share partition; two if its epochs are below the highest known."""
        for key, stored in self._stored.items():
            state = stored.state
            fenced = state._replace(
                leader_epoch=stored.leader_epoch, state_epoch=stored.state_epoch
            )
            if fenced != state:
                yield ShareRecord(key, fenced)
            yield ShareRecord(key, state)

    # Updates

    def _replay_update(self, key: ShareKey, update: ShareUpdate, stored: _Stored | None) -> None:
        if stored is None:
            # The snapshot was pruned; a later one follows in the log.
            state = ShareSnapshot(
                update.snapshot_epoch,
                _NEW_STATE_EPOCH,
                update.leader_epoch,
                update.start_offset,
                update.delivery_complete_count,
                create_ms=0,
                write_ms=0,
                batches=update.batches,
            )
            self._stored[key] = _Stored(state, update.leader_epoch, _NEW_STATE_EPOCH, updates=1)
            return
        state = stored.state
        start_offset = (
            state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
        )
        stored.state = state._replace(
            leader_epoch=(
                state.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch
            ),
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=combined(state.batches, update.batches, start_offset),
        )
        stored.leader_epoch = max(stored.leader_epoch, update.leader_epoch)
        stored.updates += 1

    def _changed(
        self, stored: _Stored, write: StateWrite, leader_epoch: int, now_ms: int
    ) -> ShareRecord:
        """The record of a change: an update, or a snapshot if it is time for one."""
        state = stored.state
        start_offset = max(write.start_offset, state.start_offset)
        count = write.delivery_complete_count
        if write.start_offset == state.start_offset:
            count = max(count, state.delivery_complete_count)
        elif write.start_offset < state.start_offset:
            count = state.delivery_complete_count
        if stored.updates < self._config.updates_per_snapshot:
            new = combined((), write.batches, start_offset)
            return ShareRecord(
                write.key, ShareUpdate(state.snapshot_epoch, leader_epoch, start_offset, count, new)
            )
        return ShareRecord(
            write.key,
            ShareSnapshot(
                snapshot_epoch=state.snapshot_epoch + 1,
                state_epoch=state.state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=count,
                create_ms=now_ms,
                write_ms=now_ms,
                batches=combined(state.batches, write.batches, start_offset),
            ),
        )

    # Commands

    def _initialize(
        self, command: StateInitialization, ticket: Ticket[None], now_ms: int
    ) -> Outcome:
        key = command.key
        _check_partition(key)
        if command.state_epoch < 0:
            raise StateRefused(Error.INVALID_REQUEST, _NEGATIVE_STATE_EPOCH)
        stored = self._stored.get(key)
        if stored is not None and command.state_epoch < stored.state_epoch:
            _refuse(Error.FENCED_STATE_EPOCH)
        self._check_topic(key)
        snapshot = ShareSnapshot(
            snapshot_epoch=0 if stored is None else stored.state.snapshot_epoch + 1,
            state_epoch=command.state_epoch,
            leader_epoch=_NEW_LEADER_EPOCH,
            start_offset=command.start_offset,
            delivery_complete_count=NO_COUNT if command.start_offset == NO_OFFSET else 0,
            create_ms=now_ms,
            write_ms=now_ms,
        )
        return Outcome((ShareRecord(key, snapshot),), ((ticket, None),))

    def _read(self, command: StateRead, ticket: Ticket[StoredState], now_ms: int) -> Outcome:
        key = command.key
        _check_partition(key)
        if command.leader_epoch < 0:
            raise StateRefused(Error.INVALID_REQUEST, _NEGATIVE_LEADER_EPOCH)
        stored = self._stored.get(key)
        if stored is None:
            raise StateRefused(Error.INVALID_REQUEST, _UNINITIALIZED_READ)
        if command.leader_epoch < stored.leader_epoch:
            _refuse(Error.FENCED_LEADER_EPOCH)
        self._check_topic(key)
        state = stored.state
        outcome = Outcome.reply(
            ticket, StoredState(state.state_epoch, state.start_offset, state.batches)
        )
        if command.leader_epoch > stored.leader_epoch:
            # From now on, writes of earlier leaders are fenced.
            unchanged = StateWrite(
                key,
                state.state_epoch,
                command.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
            )
            outcome.write(self._changed(stored, unchanged, command.leader_epoch, now_ms))
        return outcome

    def _write(self, command: StateWrite, ticket: Ticket[None], now_ms: int) -> Outcome:
        key = command.key
        _check_partition(key)
        if command.leader_epoch < 0:
            raise StateRefused(Error.INVALID_REQUEST, _NEGATIVE_LEADER_EPOCH)
        if command.state_epoch < 0:
            raise StateRefused(Error.INVALID_REQUEST, _NEGATIVE_STATE_EPOCH)
        stored = self._stored.get(key)
        if stored is None:
            raise StateRefused(Error.INVALID_REQUEST, _UNINITIALIZED_WRITE)
        if command.leader_epoch < stored.leader_epoch:
            _refuse(Error.FENCED_LEADER_EPOCH)
        if command.state_epoch < stored.state_epoch:
            _refuse(Error.FENCED_STATE_EPOCH)
        self._check_topic(key)
        known = stored.state.batches
        if len(known) + len(command.batches) > 1:
            _check_combinable(*known, *command.batches)
        # As in Kafka, a write with a later leader epoch does not record that epoch.
        record = self._changed(stored, command, stored.state.leader_epoch, now_ms)
        return Outcome((record,), ((ticket, None),))

    def _delete(self, command: StateDeletion, ticket: Ticket[None], now_ms: int) -> Outcome:
        _check_partition(command.key)
        self._check_topic(command.key)
        outcome = Outcome.reply(ticket, None)
        if command.key in self._stored:
            outcome.write(ShareRecord(command.key, None))
        return outcome

    def _summarize(
        self, command: SummaryRead, ticket: Ticket[StateSummary], now_ms: int
    ) -> Outcome:
        _check_partition(command.key)
        self._check_topic(command.key)
        stored = self._stored.get(command.key)
        if stored is None:
            summary = StateSummary(_NEW_STATE_EPOCH, _NEW_LEADER_EPOCH, NO_OFFSET, NO_COUNT)
        else:
            state = stored.state
            summary = StateSummary(
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
            )
        return Outcome.reply(ticket, summary)

    def _delete_topics(self, command: TopicsDeletion, ticket: Ticket[bool], now_ms: int) -> Outcome:
        keys = [key for key in self._in_kafkas_order() if key.topic_id in command.topic_ids]
        keys = hash_ordered(keys, share_key_hash, grown_capacity(len(keys)))
        portion = keys[:_PORTION_TOMBSTONES]
        return Outcome(
            (ShareRecord(key, None) for key in portion), ((ticket, len(portion) < len(keys)),)
        )

    # Queries

    def has_states_of(self, topic_ids: frozenset[bytes]) -> bool:
        """Whether there is a state of a share partition of these topics."""
        return any(key.topic_id in topic_ids for key in self._stored)

    def _check_topic(self, key: ShareKey) -> None:
        topic = self._topics.by_id(key.topic_id)
        if topic is None or key.partition >= topic.partition_count:
            _refuse(Error.UNKNOWN_TOPIC_OR_PARTITION)

    def _inactive(self, since_ms: int) -> Iterator[tuple[ShareKey, ShareSnapshot]]:
        """The states not written as a snapshot since then; none if all were already inactive."""
        stored = self._stored
        if all(each.state.create_ms != each.state.write_ms for each in stored.values()):
            return
        for key in self._in_kafkas_order():
            state = stored[key].state
            if state.write_ms <= since_ms:
                yield key, state

    def _in_kafkas_order(self) -> list[ShareKey]:
        return timeline_hash_ordered(self._stored, share_key_hash, self._slots)


def share_key_hash(key: ShareKey) -> int:
    """Return the signed `hashCode()` of Kafka's `SharePartitionKey`."""
    topic_partition = 31 * (31 + key.partition)
    topic_id_partition = 31 * (31 + uuid_hash_code(key.topic_id)) + topic_partition
    code = 31 * (31 + java_hash_code(key.group_id)) + topic_id_partition & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def _check_partition(key: ShareKey) -> None:
    if key.partition < 0:
        raise StateRefused(Error.INVALID_REQUEST, _NEGATIVE_PARTITION)


def _check_combinable(*batches: StateBatch) -> None:
    if not all(map(is_valid, batches)):
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)


def _refuse(error: Error) -> NoReturn:
    raise StateRefused(error, DEFAULT_MESSAGES[error])
