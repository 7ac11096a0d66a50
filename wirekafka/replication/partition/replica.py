"""A replica of a partition: its log, its high watermark, and the requests that wait for either."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wirekafka.clock import Clock
from wirekafka.log.disk_errors import storage_error
from wirekafka.log.log import Log
from wirekafka.replication.partition.internal_topics import INTERNAL_TOPICS
from wirekafka.replication.partition.waiting import Watched

if TYPE_CHECKING:
    from wirekafka.metrics.traffic import TopicTraffic

NO_EPOCH = -1
NO_LEADER = -1
"""The leader's id of a partition or a quorum whose leader is absent or unknown."""


class PartitionIdentity(NamedTuple):
    """A partition's topic, the topic's id (16 bytes), and the partition's index."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The leader, the ISR and the replicas of a partition, as decided by the controller.

    `leader_epoch` grows with every election, `partition_epoch` with every change of the
    partition's metadata. `leader_recovery_state` is 1 after an unclean election (KIP-704).
    """

    leader_id: int
    leader_epoch: int
    partition_epoch: int = 0
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0


class Brokers(Protocol):
    """A leader's view of the brokers of its followers."""

    @property
    def max_lag_ms(self) -> int:
        """`replica.lag.time.max.ms`."""

    def alive_epoch(self, broker_id: int) -> int | None:
        """The broker epoch of an unfenced broker; None for any other."""

    def may_join(self, broker_id: int) -> bool:
        """Whether a broker may enter an ISR: neither fenced nor in controlled shutdown."""


class NoBrokers:
    """A `Brokers` that knows no broker: none may join an ISR, no broker epoch is checked."""

    max_lag_ms = 30_000

    def alive_epoch(self, broker_id: int) -> int | None:
        return None

    def may_join(self, broker_id: int) -> bool:
        return False


_NO_BROKERS = NoBrokers()


class Uncommitted(Protocol):
    """A request whose batch is appended and waits for the in-sync replicas."""

    end_offset: int
    """The end of the batch."""

    def look(self, changed: Watched) -> None:
        """Check whether the batch can still be committed here."""

    def release(self) -> None:
        """End the wait; removes itself from `Replica.uncommitted`."""


@dataclass(order=True, slots=True)
class _Commit:
    offset: int
    serial: int
    callback: Callable[[], None] = field(compare=False)


class Replica(Watched):
    """The log of a partition on this broker, in any role. Offsets are half-open."""

    __slots__ = (
        "_commits",
        "_serial",
        "brokers",
        "clock",
        "flush_at",
        "high_watermark",
        "index",
        "is_internal",
        "leadership",
        "log",
        "node_id",
        "propose_later",
        "sync_later",
        "topic",
        "topic_id",
        "traffic",
        "truncated",
        "uncommitted",
    )

    def __init__(self, identity: PartitionIdentity, log: Log, node_id: int, clock: Clock):
        super().__init__()
        self.topic, self.topic_id, self.index = identity
        self.is_internal = self.topic in INTERNAL_TOPICS
        self.log = log
        self.node_id = node_id
        self.clock = clock
        self.brokers: Brokers = _NO_BROKERS
        self.leadership = Leadership(leader_id=NO_LEADER, leader_epoch=NO_EPOCH)
        self.high_watermark = log.start_offset
        """Everything below is committed. Changed only by `set_high_watermark`."""
        self.flush_at = log.recovery_point + log.config.flush_messages
        """The log end offset from which flush.messages requires a sync."""
        self.sync_later: Callable[[Any], None] | None = None
        """Syncs the log on another thread, then calls `synced`; None syncs on this thread."""
        self.truncated: Callable[[], None] | None = None
        """Called after a truncation, before any append, to lower the offsets in checkpoints."""
        self.propose_later: Callable[[Any], None] | None = None
        """Called with this replica, a leader, when a follower outside of the ISR has caught up."""
        self.traffic: TopicTraffic | None = None
        """The counters of the topic; None while the broker has no metrics."""
        self.uncommitted: dict[Uncommitted, None] = {}
        """Requests that wait for the commit of their batch (`await_commit`), in its order."""
        self._commits: list[_Commit] = []
        self._serial = count()

    @property
    def leader_id(self) -> int:
        """The broker id of the partition's leader; `NO_LEADER` if there is none."""
        return self.leadership.leader_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in the metadata; -1 before the first."""
        return self.leadership.leader_epoch

    @property
    def partition_epoch(self) -> int:
        """The version of the partition's metadata, which AlterPartition names."""
        return self.leadership.partition_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """The broker ids of the in-sync replicas."""
        return self.leadership.isr

    @property
    def replicas(self) -> tuple[int, ...]:
        """The broker ids of all replicas, the preferred leader first."""
        return self.leadership.replicas

    @property
    def last_stable_offset(self) -> int:
        """The end for read_committed: the first open transaction, or the high watermark."""
        unstable = self.log.producers.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        if unstable < self.log.start_offset:
            # As in Kafka, which looks up the batch that the log begins within.
            return self.log.batch_start(self.log.start_offset)
        return unstable

    def set_high_watermark(self, offset: int) -> None:
        """Set the high watermark, which must be within the log, and act on the change.

        Transactions that ended below it become stable, commit callbacks run in order of offset,
        and parked requests check again. Only a follower ever lowers it.
        """
        self.high_watermark = offset
        producers = self.log.producers
        if producers.completed:
            producers.forget_stable(offset)
        if self._commits:
            self._release_commits()
        while self.uncommitted:
            first = next(iter(self.uncommitted))
            if first.end_offset > offset:
                break
            first.release()
        if self.watchers:
            self.wake()

    def await_commit(self, request: Uncommitted) -> None:
        """Have a request released once the high watermark reaches its end offset.

        Its `look` is called by `wake_all`. To stop, remove it from `uncommitted`.
        """
        waiting = self.uncommitted
        if waiting and next(reversed(waiting)).end_offset > request.end_offset:
            # The repetition of a batch that still waits itself.
            ordered = sorted([*waiting, request], key=lambda each: each.end_offset)
            self.uncommitted = dict.fromkeys(ordered)
        else:
            waiting[request] = None

    def wake_all(self) -> None:
        """As `wake`, and for waiting batches: the role has changed, or the log."""
        self.wake()
        for request in tuple(self.uncommitted):
            request.look(self)

    def restore_high_watermark(self, offset: int) -> None:
        """Take the high watermark of the last checkpoint, bounded by the log."""
        self.set_high_watermark(self.within_log(offset))

    def within_log(self, offset: int) -> int:
        """Return the offset, bounded by the start and the end of the log."""
        log = self.log
        if log.start_offset <= offset <= log.end_offset:
            return offset
        return log.start_offset if offset < log.start_offset else log.end_offset

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once the high watermark reaches `offset`, in order; at once if it has."""
        if offset <= self.high_watermark:
            callback()
        else:
            heapq.heappush(self._commits, _Commit(offset, next(self._serial), callback))

    def forget_commits(self) -> None:
        """Drop pending commit callbacks: their records may be truncated after a role change."""
        self._commits.clear()

    @property
    def awaits_sync(self) -> bool:
        """Whether flush.messages requires a sync before the newest records are acknowledged."""
        return self.log.end_offset >= self.flush_at

    @property
    def durable_end_offset(self) -> int:
        """The offset up to which this replica counts for the high watermark.

        The end of its log, unless flush.messages requires a sync that has not happened yet.
        """
        log = self.log
        return log.recovery_point if log.end_offset >= self.flush_at else log.end_offset

    def sync_or_defer(self) -> bool:
        """Sync the log; False if that is deferred until `synced` is called.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        if self.sync_later is not None:
            self.sync_later(self)
            return False
        try:
            self.log.flush()
        except OSError as error:
            raise storage_error(error) from error
        self.note_synced()
        return True

    def note_synced(self) -> None:
        """Recompute `flush_at` after a sync or a change of configuration."""
        self.flush_at = self.log.recovery_point + self.log.config.flush_messages

    def _release_commits(self) -> None:
        while self._commits and self._commits[0].offset <= self.high_watermark:
            heapq.heappop(self._commits).callback()
