"""One partition as its broker sees it: leadership, the in-sync replicas, and the high watermark."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.clock import Clock
from wirekafka.codec.batch import BatchHeader, batches
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Append, Appended, Origin
from wirekafka.log.log import Log
from wirekafka.log.lookup import TimestampOffset
from wirekafka.log.slice import LogSlice
from wirekafka.log.verification import Verifications
from wirekafka.replication.waiting import Watched

if TYPE_CHECKING:
    from wirekafka.replication.replicated_log import Buffer

NO_EPOCH = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Written by brokers alone."""

_ALL_ACKS = -1
_NEVER_FLUSHED = (1 << 63) - 1
_READ_BYTES = 1 << 20


class PartitionIdentity(NamedTuple):
    """Which partition of which incarnation of a topic; ids are 16 bytes."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads and who is in sync, as the controller said it."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int = 0
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class ReadResult:
    """What a fetch of one partition found; offsets are half-open, -1 where unknown."""

    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    records: LogSlice | None = None
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the fetcher's log parts from this one; then no records."""


@dataclass(slots=True, kw_only=True)
class ReadRange:
    """What to read: from where, up to which of the ends, and at most how much."""

    offset: int
    max_bytes: int
    at_least_one: bool = True
    committed: bool = False
    """Read no further than the last stable offset."""
    to_log_end: bool = False
    """Followers and debuggers read beyond the high watermark."""
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH


class FoundOffset(NamedTuple):
    """An offset with the timestamp, in ms, and the leader epoch of its record; -1 for none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = NO_EPOCH

    @classmethod
    def of(cls, found: TimestampOffset | None) -> FoundOffset | None:
        """As the log found it."""
        return None if found is None else cls(found.timestamp, found.offset, found.leader_epoch)


@dataclass(order=True, slots=True)
class _Commit:
    offset: int
    serial: int
    callback: Callable[[], None] = field(compare=False)


class Partition(Watched):
    """A replica on this broker; as leader it is also a `ReplicatedLog`."""

    __slots__ = ("_client_append", "_clock", "_commits", "_epoch_start_offset", "_flush_at",
                 "_follower_ends", "_is_alone", "_is_sole", "_serial", "high_watermark", "index",
                 "is_internal", "is_leader", "leadership", "log", "node_id", "sync_later",
                 "topic", "topic_id")

    def __init__(self, identity: PartitionIdentity, log: Log, node_id: int, clock: Clock):
        super().__init__()
        self.topic, self.topic_id, self.index = identity
        self.is_internal = self.topic in INTERNAL_TOPICS
        self.log = log
        self.node_id = node_id
        self.high_watermark = log.start_offset
        self.leadership = Leadership(leader_id=-1, leader_epoch=NO_EPOCH)
        self.is_leader = False
        self._clock = clock
        # One for all appends of clients: the log does not keep it.
        self._client_append = Append(leader_epoch=NO_EPOCH, now_ms=0)
        self._is_alone = False
        self._is_sole = False
        """Whether what is in the log is committed, whatever acks."""
        self._flush_at = log.recovery_point + log.config.flush_messages
        self.sync_later: Callable[[Partition], None] | None = None
        """Has the log synced off this thread and then calls `synced`; None: it is done here."""
        self._epoch_start_offset = 0
        self._follower_ends: dict[int, int] = {}
        self._commits: list[_Commit] = []
        self._serial = count()

    @property
    def leader_id(self) -> int:
        return self.leadership.leader_id

    @property
    def leader_epoch(self) -> int:
        return self.leadership.leader_epoch

    @property
    def partition_epoch(self) -> int:
        return self.leadership.partition_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.leadership.isr

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.leadership.replicas

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends: the first open transaction, or the high watermark."""
        unstable = self.log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return unstable

    @property
    def awaits_sync(self) -> bool:
        """Whether flush.messages has the newest records synced before they are acknowledged."""
        return self.log.end_offset >= self._flush_at

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer are in sync than acks=all asks for; never more than there are at all."""
        wanted = self.log.config.min_insync_replicas
        if wanted == 1:
            return False
        return len(self.leadership.isr) < min(wanted, len(self.leadership.replicas))

    def configure(self, config: TopicConfig) -> None:
        """Take over the topic's configuration."""
        self.log.config = config
        self._flush_at = self.log.recovery_point + config.flush_messages
        self._find_whether_sole()

    def restore_high_watermark(self, offset: int) -> None:
        """Begin with what the last checkpoint says, as far as the log bears it out."""
        self.high_watermark = min(max(offset, self.log.start_offset), self.log.end_offset)
        # What was recovered takes transactions for replicated no further than it is told.
        self.log.producers.advance_high_watermark(self.high_watermark)

    def lead(self, leadership: Leadership) -> None:
        """Take over what the controller decided; leading in a new epoch starts it in the log."""
        was = self.leadership
        self.leadership = leadership
        self.is_leader = leadership.leader_id == self.node_id
        self._client_append.leader_epoch = leadership.leader_epoch
        self._is_alone = self.is_leader and leadership.isr == (self.node_id,)
        if self.is_leader and leadership.leader_epoch > was.leader_epoch:
            self._follower_ends.clear()
            self.log.epochs.begin(leadership.leader_epoch, self.log.end_offset)
            self._epoch_start_offset = self.log.end_offset
        self._advance()
        if not self.is_leader:
            self._commits.clear()
        self._find_whether_sole()
        self.wake()

    # As a leader.

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this is the leader, and of the epoch the client believes in (KIP-320)."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(Error.FENCED_LEADER_EPOCH)
            if current_leader_epoch > self.leader_epoch:
                raise KafkaError(Error.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)

    def check_follower(self, replica_id: int) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER unless another broker has a replica here by assignment."""
        if replica_id == self.node_id or replica_id not in self.replicas:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)

    def append_from_client(self, records: Buffer, required_acks: int, now_ms: int,
                           guard: object | None = None) -> Appended:
        """Append a producer's batch. KafkaError as `Log.append_as_leader`, or:

        NOT_LEADER_OR_FOLLOWER; NOT_ENOUGH_REPLICAS when acks=all and too few are in sync.
        """
        if not self.is_leader:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        if required_acks == _ALL_ACKS and self.lacks_replicas:
            raise KafkaError(Error.NOT_ENOUGH_REPLICAS)
        append = self._client_append
        append.now_ms = now_ms
        append.guard = guard
        appended = self.log.append_as_leader(records, append)
        self._appended()
        return appended

    def append_at_once(self, records: Buffer, now_ms: int) -> Appended | None:
        """As `append_from_client` without a guard, where that commits the batch too.

        None, with nothing changed, where it does not, or where the batch is refused.
        """
        if not self._is_sole:
            return None
        append = self._client_append
        append.now_ms = now_ms
        append.guard = None
        log = self.log
        try:
            appended = log.append_as_leader(records, append)
        except KafkaError:
            return None
        self.high_watermark = log.end_offset
        if self._commits:
            self._release_commits()
        if self.watchers:
            self.wake()
        return appended

    def append_from_coordinator(self, records: Buffer) -> Appended:
        """Append a batch made by this broker, such as a group's records or an end marker."""
        if not self.is_leader:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        appended = self.log.append_as_leader(
            records, Append(leader_epoch=self.leader_epoch, now_ms=self._clock.now_ms(),
                            origin=Origin.COORDINATOR))
        self._appended()
        return appended

    def append_marker(self, batch: Buffer, transaction_version: int) -> Appended:
        """Append the marker that ends a producer's transaction here.

        KafkaError: NOT_LEADER_OR_FOLLOWER; as `ProducerStates.check_marker`.
        """
        if not self.is_leader:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        appended = self.log.append_as_leader(
            batch, Append(leader_epoch=self.leader_epoch, now_ms=self._clock.now_ms(),
                          origin=Origin.COORDINATOR, transaction_version=transaction_version))
        self._appended()
        self.log.producers.advance_high_watermark(self.high_watermark)
        return appended

    def begin_verification(self, header: BatchHeader, *,
                           supports_epoch_bump: bool) -> object | None:
        """The guard to append a transactional batch with, once its coordinator has confirmed it.

        None when the producer's transaction is open here: it was confirmed before (KIP-890).
        """
        producers = self.log.producers
        if producers.has_open_transaction(header.producer_id, header.producer_epoch):
            return None
        if producers.verifications is None:
            producers.verifications = Verifications()
        return producers.verifications.begin(header, self._clock.now_ms(),
                                             supports_epoch_bump=supports_epoch_bump)

    def follower_reached(self, replica_id: int, end_offset: int) -> None:
        """A follower has everything below `end_offset`."""
        self._follower_ends[replica_id] = end_offset
        if self._advance():
            self.wake()

    def delete_records(self, before_offset: int) -> int:
        """Move the start of the log up; -1 is the high watermark. Returns the new start."""
        self.check_leader()
        if before_offset == -1:
            before_offset = self.high_watermark
        if before_offset < 0 or before_offset > self.high_watermark:
            raise KafkaError(Error.OFFSET_OUT_OF_RANGE)
        if before_offset > self.log.start_offset:
            self.log.advance_start(before_offset)
        return self.log.start_offset

    # As a replicated log.

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def committed_offset(self) -> int:
        return self.high_watermark

    def append(self, batch: bytes) -> int:
        return self.append_from_coordinator(batch).end_offset

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        if offset <= self.high_watermark:
            callback()
        else:
            heapq.heappush(self._commits, _Commit(offset, next(self._serial), callback))

    def read_batches(self) -> Iterable[Buffer]:
        """Every batch there is, oldest first."""
        return self._batches()

    # As a reader.

    def read(self, wanted: ReadRange) -> ReadResult:
        """Whole batches, and the offsets that go with them.

        KafkaError: as `check_leader`; OFFSET_OUT_OF_RANGE outside of the log.
        """
        self.check_leader(wanted.current_leader_epoch)
        log = self.log
        found = ReadResult(high_watermark=self.high_watermark, start_offset=log.start_offset,
                           last_stable_offset=self.last_stable_offset)
        if wanted.last_fetched_epoch != NO_EPOCH:
            found.diverging = self._divergence(wanted)
            if found.diverging is not None:
                return found
        if wanted.to_log_end:
            end_offset = log.end_offset
        else:
            end_offset = found.last_stable_offset if wanted.committed else found.high_watermark
        found.records = log.read(wanted.offset, wanted.max_bytes, end_offset=end_offset,
                                 at_least_one=wanted.at_least_one)
        return found

    def earliest(self) -> FoundOffset:
        """Where the log starts."""
        start_offset = self.log.start_offset
        epoch = self.log.epochs.epoch_at(start_offset)
        return FoundOffset(offset=start_offset, leader_epoch=epoch)

    def newest(self) -> FoundOffset | None:
        """The first record with the largest timestamp; None in an empty log."""
        return FoundOffset.of(self.log.max_timestamp_offset())

    def at_timestamp(self, timestamp: int) -> FoundOffset | None:
        """The first record with that timestamp in ms or a later one."""
        return FoundOffset.of(self.log.offset_for_timestamp(timestamp))

    def check_available(self, end_offset: int) -> int:
        """`end_offset`, if a new leader knows by now what was committed before it (KIP-207).

        Raises KafkaError(OFFSET_NOT_AVAILABLE): a client might be told an offset smaller than
        the one it was told before.
        """
        if self.high_watermark < self._epoch_start_offset:
            raise KafkaError(Error.OFFSET_NOT_AVAILABLE)
        return end_offset

    def _divergence(self, wanted: ReadRange) -> tuple[int, int] | None:
        epoch, end_offset = self.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == -1 or wanted.offset < self.log.start_offset:
            raise KafkaError(Error.OFFSET_OUT_OF_RANGE)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.offset:
            return epoch, end_offset
        return None

    def _find_whether_sole(self) -> None:
        self._is_sole = (
            self._is_alone and len(self.leadership.replicas) <= 1
            and self.log.config.flush_messages == _NEVER_FLUSHED
            and self.high_watermark == self.log.end_offset)

    def _appended(self) -> None:
        end_offset = self.log.end_offset
        if end_offset >= self._flush_at and not self._flush():
            return
        if self._is_alone:
            self.high_watermark = end_offset
            if self._commits:
                self._release_commits()
        if self.watchers:
            self.wake()

    def synced(self) -> bool:
        """Acknowledge what was synced; False where more has been appended that needs it."""
        self._flush_at = self.log.recovery_point + self.log.config.flush_messages
        if self._is_alone:
            end_offset = self.log.recovery_point if self.awaits_sync else self.log.end_offset
            self.high_watermark = max(self.high_watermark, end_offset)
            self.log.producers.advance_high_watermark(self.high_watermark)
            self._release_commits()
        self.wake()
        return not self.awaits_sync

    def _flush(self) -> bool:
        """Sync as flush.messages asks for; False: not before `synced` is called."""
        if self.sync_later is not None:
            self.sync_later(self)
            return False
        try:
            self.log.flush()
        except OSError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        self._flush_at = self.log.recovery_point + self.log.config.flush_messages
        return True

    def _advance(self) -> bool:
        """Recompute the high watermark: what every in-sync replica has."""
        if not self.is_leader:
            return False
        end_offset = self.log.end_offset
        for replica_id in self.leadership.isr:
            if replica_id != self.node_id:
                end_offset = min(end_offset, self._follower_ends.get(replica_id, 0))
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        self.log.producers.advance_high_watermark(end_offset)
        self._release_commits()
        return True

    def _release_commits(self) -> None:
        while self._commits and self._commits[0].offset <= self.high_watermark:
            heapq.heappop(self._commits).callback()

    def _batches(self) -> Iterator[Buffer]:
        offset = self.log.start_offset
        while offset < self.log.end_offset:
            found = self.log.read(offset, _READ_BYTES, end_offset=self.log.end_offset,
                                  at_least_one=True)
            data = memoryview(b"".join(found.buffers()))
            if not data:
                return  # Compaction left nothing up to the end.
            for position, header in batches(data):
                yield data[position:position + header.size_bytes]
                offset = header.end_offset
