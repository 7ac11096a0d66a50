"""Plans a follower's fetches from one leader over one connection, and applies the responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wirekafka.errors import Error, KafkaError
from wirekafka.replication.fetching.fetcher_session import (
    FetcherSession,
    FollowedKey,
    PartitionFetch,
    Plan,
)
from wirekafka.replication.fetching.throttle import ReplicationThrottle
from wirekafka.replication.partition.follower import PartitionResponse, ReplicaFollower
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.remote_log import LocalStart
from wirekafka.replication.partition.waiting import Watched

logger = logging.getLogger(__name__)

_REVIEW_MS = 1_000
_REVIEWED = 100
"""How often, and how many partitions at a time, in turn, are compared with the last request:
retention may have moved their log start offsets."""

_TRANSIENT = frozenset(
    {
        Error.FENCED_LEADER_EPOCH,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Expected while leader and follower do not have the same metadata yet: logged at INFO only."""

_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.


@dataclass(slots=True, kw_only=True)
class FetchedPartition(PartitionResponse):
    """One partition of a leader's Fetch response."""

    error: int


class Fetcher:
    """Plans the requests for all replicas that follow one leader over one connection.

    The order of calls is `plan`, then `accept` and `take` for the response, or `refuse` or
    `interrupt`; then `plan` again. `follow` and `forget` may be called at any time. An error in one
    partition delays only that partition, by `backoff_ms`.
    """

    def __init__(self, backoff_ms: Callable[[], int], throttle: ReplicationThrottle):
        self._backoff_ms = backoff_ms
        self._throttle = throttle
        self._session = FetcherSession()
        self._followed: dict[FollowedKey, _Followed] = {}
        self._changed: dict[FollowedKey, None] = {}
        """Partitions whose position may differ from the position in the last request."""
        self._held_back: dict[FollowedKey, None] = {}
        """Partitions that cannot be fetched for now, because of an error or the throttle."""
        self._out_of_range: dict[FollowedKey, None] = {}
        self._moved: dict[FollowedKey, None] = {}
        self._review_ms = 0
        self._unreviewed: list[FollowedKey] = []
        """Partitions whose turn in the review is yet to come."""
        self.on_ready: Callable[[], None] = _ignore
        """Called when a partition can be fetched that could not be fetched before."""

    def __len__(self) -> int:
        return len(self._followed)

    def lags(self) -> Iterator[tuple[Partition, int]]:
        """How far each partition was behind its leader's high watermark at the last Fetch."""
        for followed in list(self._followed.values()):
            if followed.lag is not None:
                yield followed.partition, followed.lag

    # The partitions.

    def follow(self, partition: Partition, now_ms: int) -> None:
        """Start fetching a partition; no effect if it is fetched in the same leader epoch already.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        key = _key(partition)
        known = self._followed.get(key)
        epoch = partition.leader_epoch
        if known is not None and known.partition is partition and known.leader_epoch == epoch:
            return
        follower = partition.follower
        assert follower is not None, "a follower"
        follower.truncate_unknown_epochs(now_ms)
        if known is not None:
            known.stop_watching()
        self._followed[key] = _Followed(partition, epoch, self)
        self._changed[key] = None
        self._held_back.pop(key, None)
        self._out_of_range.pop(key, None)
        self._moved.pop(key, None)
        self.on_ready()

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition; ignored if it is not fetched."""
        key = _key(partition)
        known = self._followed.pop(key, None)
        if known is not None:
            known.stop_watching()
            self._changed[key] = None
            self._held_back.pop(key, None)
            self._out_of_range.pop(key, None)
            self._moved.pop(key, None)

    # Requests.

    def plan(self, now_ms: int) -> Plan | None:
        """Return the next Fetch request; None while no partition can be fetched."""
        candidates = self._changed
        self._changed = {}
        session, is_full = self._session, self._session.is_full
        if is_full:
            candidates = dict.fromkeys(self._followed) | candidates
        else:
            if self._held_back:
                candidates |= self._held_back
            if now_ms >= self._review_ms:
                self._review_ms = now_ms + _REVIEW_MS
                candidates |= dict.fromkeys(self._reviewed())
        wanted: dict[FollowedKey, PartitionFetch] = {}
        unwanted = []
        for key in candidates:
            followed = self._followed.get(key)
            follower = None if followed is None else self._fetchable(key, followed, now_ms)
            if followed is None or follower is None:
                unwanted.append(key)
            else:
                log = followed.partition.log
                start_offset = log.start_offset if log.remote is None else log.first_offset
                wanted[key] = _new(
                    PartitionFetch,
                    (followed.leader_epoch, log.end_offset, log.epochs.latest, start_offset),
                )
        return session.full(wanted) if is_full else session.incremental(wanted, unwanted)

    def next_retry_ms(self, now_ms: int) -> int | None:
        """The earliest time, in ms, at which a held-back partition can be fetched; None: never."""
        due_ms = [
            max(self._followed[key].retry_ms, now_ms + 1)
            for key in self._held_back
            if not self._followed[key].is_fenced
        ]
        return min(due_ms, default=None)

    # Responses.

    def accept(self, session_id: int) -> None:
        """Begin to process a response without a top-level error."""
        self._session.accept(session_id)

    def refuse(self, error: int) -> None:
        """Process a response that has only a top-level error."""
        self._session.refuse(error)

    def interrupt(self) -> None:
        """Note that a request has failed, or got no response."""
        self._session.interrupt()

    def take(self, key: FollowedKey, fetched: FetchedPartition, now_ms: int) -> None:
        """Append a response's records of one partition; no effect if it is no longer followed.

        Errors are logged, and the partition is fetched again later.
        """
        followed, position = self._followed.get(key), self._session.requested.get(key)
        if followed is None or position is None:
            return
        partition = followed.partition
        follower, log = partition.follower, partition.log
        if follower is None or position.leader_epoch != partition.leadership.leader_epoch:
            return
        has_records = len(fetched.records) > 0
        if (
            has_records
            or fetched.error
            or fetched.diverging is not None
            or fetched.start_offset > log.start_offset
            or log.remote is not None
            or position.fetch_offset != log.end_offset
            or self._is_throttled(partition)
        ):
            self._changed[key] = None
        # Else only the high watermark changes: what is requested next stays as it is.
        if not fetched.error:
            try:
                if has_records:
                    self._note_records(key, followed, len(fetched.records), now_ms)
                if position.fetch_offset == log.end_offset:
                    self._apply(followed, follower, fetched, now_ms)
            except KafkaError as error:
                self._fail(key, followed, error, now_ms)
            except Exception as error:
                logger.exception("Appending to %s failed", followed.partition.log.name)
                unexpected = KafkaError(Error.UNKNOWN_SERVER_ERROR, repr(error))
                self._fail(key, followed, unexpected, now_ms)
        elif fetched.error == Error.OFFSET_MOVED_TO_TIERED_STORAGE and partition.remote is not None:
            if position.fetch_offset == follower.fetch_offset:
                self._moved[key] = None
        elif fetched.error != Error.OFFSET_OUT_OF_RANGE:
            self._fail(key, followed, KafkaError.of(fetched.error), now_ms)
        elif position.fetch_offset == follower.fetch_offset:
            self._out_of_range[key] = None

    def out_of_range(self) -> list[Partition]:
        """The partitions whose offset is out of the leader's range; each is returned once.

        They are fetched again after `return_to_range` or `fail`.
        """
        if not self._out_of_range:
            return []
        keys = self._out_of_range
        self._out_of_range = {}
        return [self._followed[key].partition for key in keys]

    def moved(self) -> list[Partition]:
        """The partitions whose next records are in remote storage; each is returned once.

        They are fetched again after `restart_after_remote` or `fail`.
        """
        if not self._moved:
            return []
        keys, self._moved = self._moved, {}
        return [self._followed[key].partition for key in keys if key in self._followed]

    def restart_after_remote(
        self, partition: Partition, start_offset: int, start: LocalStart, now_ms: int
    ) -> None:
        """Begin a log where a remote segment ends, after OFFSET_MOVED_TO_TIERED_STORAGE.

        `start_offset` is the start offset of the leader's log.
        """
        key = _key(partition)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition or partition.follower is None:
            return
        logger.info(
            "%s begins at offset %d: older records, since %d, stay in remote storage",
            partition.log.name,
            start.offset,
            start_offset,
        )
        try:
            partition.follower.restart_after_remote(start_offset, start, now_ms)
        except KafkaError as error:
            self._fail(key, followed, error, now_ms)
        self._changed[key] = None

    def return_to_range(
        self, partition: Partition, start_offset: int, end_offset: int, now_ms: int
    ) -> None:
        """Truncate or restart a log so that it ends within the leader's, after OFFSET_OUT_OF_RANGE.

        `start_offset` and `end_offset` delimit the leader's log.
        """
        key = _key(partition)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition or partition.follower is None:
            return
        if start_offset <= partition.log.end_offset <= end_offset:
            self._fail(key, followed, KafkaError(Error.OFFSET_OUT_OF_RANGE), now_ms)
            return
        logger.warning(
            "%s ends at offset %d, outside of the leader's log (%d to %d); it is moved there",
            partition.log.name,
            partition.log.end_offset,
            start_offset,
            end_offset,
        )
        try:
            partition.follower.return_to_range(start_offset, end_offset, now_ms)
        except KafkaError as error:
            self._fail(key, followed, error, now_ms)
        self._changed[key] = None

    def fail(self, partition: Partition, error: KafkaError, now_ms: int) -> None:
        """Note an error of a partition, which is fetched again after a delay."""
        key = _key(partition)
        followed = self._followed.get(key)
        if followed is not None and followed.partition is partition:
            self._fail(key, followed, error, now_ms)

    def synced(self, partition: Partition) -> None:
        """Continue to fetch a partition whose required sync has finished."""
        self._changed[_key(partition)] = None
        self.on_ready()

    def _reviewed(self) -> list[FollowedKey]:
        """The next partitions to review."""
        if not self._unreviewed:
            self._unreviewed = list(self._followed)
        reviewed = self._unreviewed[-_REVIEWED:]
        del self._unreviewed[-_REVIEWED:]
        return reviewed

    def _fetchable(
        self, key: FollowedKey, followed: _Followed, now_ms: int
    ) -> ReplicaFollower | None:
        """Return the follower role if the partition can be fetched now; else None.

        A partition that has to wait for a time is noted in `_held_back`. A fetch acknowledges all
        records before its offset, so it waits for a required sync.
        """
        partition = followed.partition
        if followed.is_fenced or now_ms < followed.retry_ms:
            self._held_back[key] = None
            return None
        if (
            followed.lag != 0
            and self._is_throttled(partition)
            and self._throttle.is_exceeded(now_ms)
        ):
            followed.retry_ms = now_ms + self._backoff_ms()
            self._held_back[key] = None
            return None
        if self._held_back:
            self._held_back.pop(key, None)
        if partition.awaits_sync and not self._sync(key, followed, now_ms):
            return None
        if key in self._out_of_range or key in self._moved:
            return None
        return partition.follower

    def _sync(self, key: FollowedKey, followed: _Followed, now_ms: int) -> bool:
        """Begin a required sync of the log; False if the partition has to wait for it."""
        partition = followed.partition
        try:
            if not partition.log.has_failed and partition.sync_or_defer():
                return True
        except KafkaError as error:
            self._fail(key, followed, error, now_ms)
            return False
        followed.watch()
        return False

    def _note_records(
        self, key: FollowedKey, followed: _Followed, size_bytes: int, now_ms: int
    ) -> None:
        if self._is_throttled(followed.partition):
            self._throttle.record(size_bytes, now_ms)
        # Moved to the end, so that a full response does not starve the partitions behind it.
        self._followed[key] = self._followed.pop(key)

    def _apply(
        self, followed: _Followed, follower: ReplicaFollower, fetched: FetchedPartition, now_ms: int
    ) -> None:
        follower.apply(fetched, now_ms)
        lag = fetched.high_watermark - followed.partition.log.end_offset
        followed.lag = lag if lag > 0 else 0
        if followed.last_error is not None:
            logger.info("Fetching %s succeeds again", followed.partition.log.name)
            followed.last_error = None

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.follower_replication_throttled_replicas
        return bool(throttled) and self._throttle.applies_to(partition.index, throttled)

    def _fail(self, key: FollowedKey, followed: _Followed, error: KafkaError, now_ms: int) -> None:
        followed.retry_ms = now_ms + self._backoff_ms()
        # The leader has a newer epoch: `follow` is called when the metadata has it too.
        followed.is_fenced = error.error == Error.FENCED_LEADER_EPOCH
        self._changed[key] = self._held_back[key] = None
        if followed.last_error == error.error:
            return
        followed.last_error = error.error
        level = logging.INFO if error.error in _TRANSIENT else logging.ERROR
        logger.log(
            level,
            "%s cannot be fetched from broker %d at offset %d in leader epoch %d: %s",
            followed.partition.log.name,
            followed.partition.leader_id,
            followed.partition.log.end_offset,
            followed.leader_epoch,
            error,
        )


class _Followed:
    """One followed partition, in one leader epoch."""

    __slots__ = (
        "_fetcher",
        "is_fenced",
        "lag",
        "last_error",
        "leader_epoch",
        "partition",
        "retry_ms",
    )

    def __init__(self, partition: Partition, leader_epoch: int, fetcher: Fetcher):
        self._fetcher = fetcher
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.retry_ms = 0
        """The time before which the partition is not fetched."""
        self.is_fenced = False
        """Whether the leader has a newer leader epoch, so that fetches in the known epoch fail."""
        self.lag: int | None = None
        """From the end of its log to the leader's high watermark; None until that is known."""
        self.last_error: int | None = None
        """The last error, which is logged again only after another error or a success."""

    def watch(self) -> None:
        """Continue with the partition once its sync has finished."""
        self.partition.watchers[self] = None

    def stop_watching(self) -> None:
        """Undo `watch`."""
        self.partition.watchers.pop(self, None)

    def look(self, changed: Watched) -> None:
        """Check whether the sync has finished (`waiting.Watcher`)."""
        if not self.partition.awaits_sync:
            self.stop_watching()
            self._fetcher.synced(self.partition)


def _key(partition: Partition) -> FollowedKey:
    return partition.topic_id, partition.index


def _ignore() -> None:
    """The default of `on_ready`."""
