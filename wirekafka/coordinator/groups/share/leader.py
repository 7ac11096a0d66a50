"""The share partitions whose partitions this broker leads: loaded, timed, stored (KIP-932)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from wirekafka.clock import Timer
from wirekafka.config.checks.group_bounds import clamped
from wirekafka.coordinator.groups.share.counts import ShareCounts
from wirekafka.coordinator.groups.share.dead_letters import (
    DeadLetterHost,
    DeadLetterWriter,
    UnusableTopic,
)
from wirekafka.coordinator.groups.share.reading_options import EARLIEST, LATEST, ShareReadingOptions
from wirekafka.coordinator.share_state.states import (
    NO_OFFSET,
    ShareKey,
    ShareStates,
    StateBatch,
    StateRead,
    StateWrite,
    StoredState,
    only,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import GROUP
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.waiting import Watched
from wirekafka.replication.share.acknowledgement import Acknowledgement, acknowledge
from wirekafka.replication.share.in_flight import DeadLetters, StateChange, StoredRun, exhausted
from wirekafka.replication.share.partition import SharePartition
from wirekafka.replication.share.sessions import MemberSessionKey, ShareSessions
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import Promise

logger = logging.getLogger(__name__)

_SHARE_VERSION = "share.version"
_NOT_HOSTED = "This server does not host this topic-partition."


class Phase(Enum):
    """The life of a share partition at its leader."""

    LOADING = "its state is being read"
    ACTIVE = "records can be acquired"
    ENDED = "another leader, or another object of this one, takes over"


class ShareHost(DeadLetterHost, Protocol):
    """The parts of the broker that share partitions depend on."""

    @property
    def share_states(self) -> ShareStates:
        """The stored states, wherever their coordinators are."""

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Look up a partition on this broker. Raises KafkaError."""


class LedShare(Watched):
    """A share partition whose partition is led here; ShareFetches wait for its changes."""

    __slots__ = (
        "failure",
        "key",
        "machine",
        "partition",
        "phase",
        "reader",
        "timed_out",
        "timer",
        "timer_ms",
    )

    def __init__(self, key: ShareKey, partition: Partition, options: ShareReadingOptions):
        super().__init__()
        self.key = key
        self.partition = partition
        self.machine = SharePartition(options.limits, partition.leader_epoch)
        self.phase = Phase.LOADING
        self.failure: KafkaError | None = None
        """Why the state could not be loaded."""
        self.reader: object | None = None
        """The fetch that is about to acquire records; other fetches wait meanwhile."""
        self.timed_out = 0
        """How many locks of records have expired."""
        self.timer: Timer | None = None
        self.timer_ms = 0

    @property
    def is_led(self) -> bool:
        """Whether this broker has led the partition ever since the state was loaded.

        Another leader may have stored a newer state.
        """
        leader = self.partition.leader
        return leader is not None and leader.led_since_epoch <= self.machine.leader_epoch

    def hold(self, reader: object) -> bool:
        """Reserve the next acquisition for a fetch, if records may be acquired."""
        if self.phase is not Phase.ACTIVE or self.reader is not None or not self.is_led:
            return False
        if not self.machine.can_acquire():
            return False
        self.reader = reader
        return True

    def release(self, reader: object) -> None:
        """End the reservation of a fetch, if it has one, and let waiting fetches check again."""
        if self.reader is reader:
            self.reader = None
            if self.watchers:
                self.wake()


class ShareLeader:
    """All share partitions of a broker, by group, topic id and index.

    They are created by the first fetch, and dropped when the partition's leadership or the stored
    state is lost, or when the last member of the group has disconnected.
    """

    def __init__(self, host: ShareHost):
        self._host = host
        self._shares: dict[ShareKey, LedShare] = {}
        self.sessions = ShareSessions(host.config.group_share_max_share_sessions)
        self.counts = ShareCounts()
        self._dead_letters = DeadLetterWriter(host, self.counts.dead_letters)

    def __len__(self) -> int:
        return len(self._shares)

    def all(self) -> list[LedShare]:
        """The share partitions of all groups."""
        return list(self._shares.values())

    def options(self, group_id: str) -> ShareReadingOptions:
        """The present options of a group."""
        host = self._host
        image = host.image
        return ShareReadingOptions.of(
            host.config,
            clamped(host.config, image.config(GROUP, group_id)),
            image.features.get(_SHARE_VERSION, 0),
        )

    def find(self, key: ShareKey) -> LedShare | None:
        """Return a share partition whose partition is still led here."""
        share = self._shares.get(key)
        if share is None:
            return None
        if not self._is_current(share):
            self._drop(share)
            return None
        share.machine.limits = self.options(key.group_id).limits
        return share

    def obtain(self, key: ShareKey) -> tuple[LedShare, bool]:
        """Return a share partition, and whether this call has begun to load its state.

        KafkaError: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        share = self.find(key)
        if share is not None:
            return share, False
        partition = self._partition(key)
        partition.leading()
        share = LedShare(key, partition, self.options(key.group_id))
        self._shares[key] = share
        start(self._load(share))
        return share, True

    def acknowledge(
        self, key: ShareKey, member: str, acknowledgements: Sequence[Acknowledgement]
    ) -> Promise[None]:
        """Apply acknowledgements, and store the result.

        The promise raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION if nothing was fetched from the
        partition here; as `share_acknowledgement.acknowledge`; as `_storing_error`.
        """
        promise: Promise[None] = Promise()
        share = self.find(key)
        if share is None:
            promise.set(KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HOSTED))
            return promise
        self.counts.acknowledgements(acknowledgements)
        try:
            change = acknowledge(share.machine, member, acknowledgements, self._now_ms())
        except KafkaError as error:
            promise.set(error)
        else:
            self._begin(share, change, promise)
        self.arm(share)
        return promise

    def release(self, key: ShareKey, member: str) -> None:
        """Make the records available that a member has acquired, in the background."""
        share = self.find(key)
        if share is not None:
            self._begin(share, share.machine.release(member), Promise())

    def close_session(self, session: MemberSessionKey) -> None:
        """End a member's session, and release its acquired records."""
        for topic_id, index in self.sessions.close(session):
            self.release(ShareKey(session.group_id, topic_id, index), session.member_id)

    def disconnected(self, connection_id: str) -> None:
        """Close the session of a connection that ended.

        After a group's last session, the group's share partitions are dropped.
        """
        session = self.sessions.disconnected(connection_id)
        if session is None:
            return
        if self.sessions.opened_on(session) == connection_id:
            self.close_session(session)
        if not self.sessions.has_members(session.group_id):
            for share in [
                each for key, each in self._shares.items() if key.group_id == session.group_id
            ]:
                self._drop(share)

    def arm(self, share: LedShare) -> None:
        """Set the timer to the first expiry of a lock; call it after an acquisition."""
        deadline_ms = share.machine.deadline()
        if deadline_ms is None or share.phase is not Phase.ACTIVE:
            return
        if share.timer is not None:
            if share.timer_ms <= deadline_ms:
                return
            share.timer.cancel()
        share.timer_ms = deadline_ms
        delay_ms = max(deadline_ms - self._now_ms(), 0)
        share.timer = self._host.clock.call_later(delay_ms, lambda: self._expire(share))

    def of_group(self, group_id: str) -> list[LedShare]:
        """Return the group's share partitions that are led here, by topic id and index."""
        keys = sorted(key for key in self._shares if key.group_id == group_id)
        return [share for key in keys if (share := self.find(key)) is not None]

    def expire_locks(self, share: LedShare) -> int:
        """Expire all locks of a share partition before their time, as tests do.

        Returns how many records were locked.
        """
        size = share.machine.end_locks(self._now_ms())
        if share.timer is not None:
            share.timer.cancel()
        self._expire(share)
        return size

    def stop(self) -> None:
        """Drop all share partitions when the broker stops."""
        for share in tuple(self._shares.values()):
            self._drop(share)
        self._dead_letters.stop()

    # Loading.

    async def _load(self, share: LedShare) -> None:
        key = share.key
        try:
            reads = [StateRead(key, share.machine.leader_epoch)]
            stored = await self._read(reads)
            start_offset = stored.start_offset
            if start_offset == NO_OFFSET:
                start_offset = self._initial_offset(share)
            batches = [StoredRun(*batch) for batch in stored.batches]
            share.machine.load(stored.state_epoch, start_offset, batches)
            if share.phase is Phase.LOADING:
                share.phase = Phase.ACTIVE
        except KafkaError as error:
            share.failure = error
        except Exception:
            logger.exception("Loading share group %s of %s failed", key.group_id, share.partition)
            share.failure = KafkaError(Error.UNKNOWN_SERVER_ERROR)
        if share.failure is not None:
            self._drop(share)
        share.wake()
        if share.phase is Phase.ACTIVE:
            self._bury(share, share.machine.unwritten())

    async def _read(self, reads: Sequence[StateRead]) -> StoredState:
        try:
            return only(await self._host.share_states.read(reads))
        except KafkaError as error:
            raise _storing_error(error) from error

    def _initial_offset(self, share: LedShare) -> int:
        """Return the start offset of a group without one, by `share.auto.offset.reset`."""
        partition = share.partition
        partition.leading(share.machine.leader_epoch)
        options = self.options(share.key.group_id)
        if options.offset_reset == EARLIEST:
            return partition.start_offset
        partition.check_available()
        if options.offset_reset == LATEST:
            return partition.high_watermark
        found = partition.at_timestamp(options.start_timestamp(self._now_ms()))
        if found is None or found.offset >= partition.high_watermark:
            raise KafkaError(Error.OFFSET_NOT_AVAILABLE)
        return found.offset

    # Storing.

    def _begin(self, share: LedShare, change: StateChange, promise: Promise[None]) -> None:
        if change:
            start(self._store(share, change, promise))
        else:
            promise.set(None)

    async def _store(self, share: LedShare, change: StateChange, promise: Promise[None]) -> None:
        """Store a change and complete it, or roll it back."""
        machine = share.machine
        error = await self._write(share, change.stored)
        if error is None:
            machine.commit(change)
        else:
            machine.roll_back(change, self._now_ms())
            if error.error in _LOST:
                self._drop(share)
        promise.set(error)
        if share.watchers:
            share.wake()
        if error is None:
            self._bury(share, change.dead_letters)

    async def _write(self, share: LedShare, stored: Sequence[StoredRun]) -> KafkaError | None:
        machine = share.machine
        write = StateWrite(
            share.key,
            machine.state_epoch,
            machine.leader_epoch,
            machine.start_offset,
            machine.complete_count,
            tuple(StateBatch(*run) for run in stored),
        )
        try:
            only(await self._host.share_states.write([write]))
        except KafkaError as error:
            return _storing_error(error)
        except Exception:
            logger.exception("Storing share group %s failed", share.key.group_id)
            return KafkaError(Error.UNKNOWN_SERVER_ERROR)
        return None

    # Locks.

    def _expire(self, share: LedShare) -> None:
        share.timer = None
        if share.phase is not Phase.ACTIVE:
            return
        if not self._is_current(share):
            self._drop(share)
            return
        share.machine.limits = self.options(share.key.group_id).limits
        stored = share.machine.expire(self._now_ms())
        if stored:
            share.timed_out += sum(run.last + 1 - run.first for run in stored)
            start(self._store_expired(share, stored))
            share.wake()
        self.arm(share)

    async def _store_expired(self, share: LedShare, stored: Sequence[StoredRun]) -> None:
        # The locks have expired even if that cannot be stored: a later write repeats the states.
        error = await self._write(share, stored)
        if error is not None:
            logger.warning("Storing expired locks of %s failed: %s", share.key.group_id, error)
        if share.machine.advance() and share.watchers:
            share.wake()
        self._bury(share, exhausted(stored))

    # Dead letters.

    def _bury(self, share: LedShare, dead_letters: Sequence[DeadLetters]) -> None:
        """Write dead letters to the group's topic, then archive them, even if writing fails."""
        if dead_letters:
            start(self._bury_all(share, dead_letters))

    async def _bury_all(self, share: LedShare, dead_letters: Sequence[DeadLetters]) -> None:
        key = share.key
        for letters in dead_letters:
            try:
                await self._dead_letters.write(key.group_id, share.partition, letters)
            except (KafkaError, UnusableTopic) as error:
                logger.error("Dead letters of group %s were not written: %s", key.group_id, error)
            except Exception:
                logger.exception("Writing dead letters of group %s failed", key.group_id)
            if self._shares.get(key, share) is not share:
                # The state was loaded again since, and its unwritten dead letters with it.
                return
            archived = share.machine.archive_written(letters)
            failure = await self._write(share, [archived])
            if failure is not None:
                logger.error("Archiving dead letters of %s failed: %s", key.group_id, failure)
            if share.machine.advance() and share.watchers:
                share.wake()

    # The present leadership.

    def _partition(self, key: ShareKey) -> Partition:
        try:
            return self._host.partition_by_id(key.topic_id, key.partition)
        except KafkaError as error:
            topic = self._host.image.topics_by_id.get(key.topic_id)
            if error.error is Error.UNKNOWN_TOPIC_OR_PARTITION and (
                topic is not None and key.partition in topic.partitions
            ):
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER) from error
            raise

    def _is_current(self, share: LedShare) -> bool:
        if not share.is_led:
            return False
        try:
            return self._partition(share.key) is share.partition
        except KafkaError:
            return False

    def _drop(self, share: LedShare) -> None:
        share.phase = Phase.ENDED
        if self._shares.get(share.key) is share:
            del self._shares[share.key]
        if share.timer is not None:
            share.timer.cancel()
            share.timer = None
        if share.watchers:
            share.wake()

    def _now_ms(self) -> int:
        return self._host.clock.now_ms()


_LOST = frozenset(
    {
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.FENCED_STATE_EPOCH,
        Error.GROUP_ID_NOT_FOUND,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which the state has to be loaded again."""

_COORDINATORS = frozenset(
    {Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS}
)
_FENCED = frozenset({Error.FENCED_LEADER_EPOCH, Error.FENCED_STATE_EPOCH})
_PASSED_ON = frozenset({Error.GROUP_ID_NOT_FOUND, Error.UNKNOWN_TOPIC_OR_PARTITION})


def _storing_error(error: KafkaError) -> KafkaError:
    """Return the error that a member gets for one of the share coordinator, as in Kafka."""
    code = error.error
    if code in _COORDINATORS:
        code = Error.COORDINATOR_NOT_AVAILABLE
    elif code in _FENCED:
        code = Error.NOT_LEADER_OR_FOLLOWER
    elif code not in _PASSED_ON:
        code = Error.UNKNOWN_SERVER_ERROR
    return KafkaError(code, error.message)
