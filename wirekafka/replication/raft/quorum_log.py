"""The log of the metadata quorum, one class for leader, follower and observer (KIP-595)."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

from wirekafka.clock import Clock
from wirekafka.codec.batch import batches, read_header, with_prefix
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.disk_errors import is_passing, reason_of, storage_error
from wirekafka.log.files import Disk
from wirekafka.log.flush import Flush
from wirekafka.log.log import Log
from wirekafka.log.slice import LogSlice
from wirekafka.replication.partition.replica import NO_EPOCH, NO_LEADER
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.deliveries import Deliveries
from wirekafka.replication.raft.metadata_log import (
    AS_LITTLE_AS_POSSIBLE,
    MetadataLog,
    MetadataRetention,
    Sync,
    WrongQuorum,
    sync_inline,
)
from wirekafka.replication.raft.quorum_state import QuorumState
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import VoterSet
from wirekafka.runtime.observation import Observation, Observer
from wirekafka.runtime.record_codec import RecordCodec
from wirekafka.runtime.replicated_log import Buffer

logger = logging.getLogger(__name__)

_MOST_BATCH_BYTES = 8 << 20
"""Kafka's limit of one append in bytes, so that no request can fill all nodes' memory."""


class DivergedMetadata(WrongQuorum):
    """The quorum's leader lacks committed records: it has lost data or is of another cluster."""


class UnreadableMetadata(UnusableDirectory):
    """A committed batch cannot be read or decoded; without it the metadata is incomplete."""


class LogPosition(NamedTuple):
    """The parameters of a Fetch request, which are needed again to check its response."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedLog:
    """The partition of a Fetch response without an error, and the position it answers."""

    asked: LogPosition
    high_watermark: int
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where this log diverges from the leader's; `records` is empty then."""


class QuorumLog(MetadataLog):
    """`__cluster_metadata-0` of one node: a `ReplicatedLog` on the leader, elsewhere a copy.

    A leader appends; a follower or observer appends the leader's batches unchanged, and truncates
    where the logs diverge. In every role, batches are delivered to observers once committed. `Raft`
    decides on the role and on the high watermark.
    """

    def __init__(
        self,
        log: Log,
        disk: Disk,
        clock: Clock,
        codec: RecordCodec,
        *,
        voters: VoterSet | None = None,
        sync: Sync = sync_inline,
        retention: MetadataRetention = AS_LITTLE_AS_POSSIBLE,
    ):
        super().__init__(log, disk, clock, sync, retention)
        self._codec = codec
        self._static_voters = voters or VoterSet()
        self._deliveries = Deliveries(self._read_log, codec, self.again_later)
        self._synced = 0
        self._callbacks: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()
        self._is_leader = False
        self._is_syncing = self._is_named = False
        self.is_installing = False
        """Whether a snapshot of the leader is being written; nothing is fetched meanwhile."""
        self.failure: KafkaError | None = None
        """The error of a failed sync, after which the log accepts no appends; None before."""
        self.on_failure: Callable[[KafkaError], None] | None = None
        """Called once, when a sync has failed."""
        self.on_append: Callable[[], None] | None = None
        """Called after each append of a leader, and after each sync."""
        self.leader_id = NO_LEADER
        """The leader of `epoch`, -1 while it is unknown."""
        self.epoch = 0
        """The newest known leader epoch of the quorum."""

    @property
    def directory(self) -> str:
        """The path of the log's directory."""
        return self._log.directory

    @property
    def voters(self) -> VoterSet:
        """The voters at the end of the log; the configured voters if the log has none."""
        return self._history.voters or self._static_voters

    @property
    def voters_offset(self) -> int | None:
        """The offset of the record that has the voters; None in a static quorum."""
        return self._history.voters_offset

    @property
    def synced_offset(self) -> int:
        """The offset below which this start of the node knows all records to be on the medium."""
        return min(self._synced, self._log.end_offset)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log."""
        return max(self._last_fetched_epoch, 0)

    @property
    def position(self) -> LogPosition:
        """The parameters of the next Fetch, which continues at the end of the log."""
        return LogPosition(
            leader_epoch=self.epoch,
            offset=self._log.end_offset,
            last_fetched_epoch=self._last_fetched_epoch,
            high_watermark=self._committed,
        )

    # Reading

    def observe(self, observer: Observer, failed: Callable[[Exception], None]) -> Observation:
        """Deliver the newest snapshot to `observer`, then each committed batch, once and in order.

        `failed` is called when the observer has failed too often and gets no more batches.
        """
        observation = Observation(observer, self._clock, self._committed, failed)
        self._deliveries.observations.append(observation)
        return observation

    def load(self) -> None:
        """Deliver the newest snapshot, and note the voters of the log.

        The log after the snapshot is delivered once a leader has confirmed that it is committed.
        Raises `BadSnapshot`, `BadQuorumState`, and `WrongQuorum` if the log's beginning was deleted
        and no snapshot covers it.
        """
        state = QuorumState.read(self._disk, self._log.directory)
        if state is not None:
            self.epoch = state.leader_epoch
        self.epoch = max(self.epoch, self._log.epochs.latest)
        ids = self._snapshots()
        if ids:
            self._restore(ids[0])
        self._check_covered(self._committed)
        self.note_voters()

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> LogSlice:
        """Read batches up to `end_offset`, by default the end of the log. Raises KafkaError."""
        end = self._log.end_offset if end_offset is None else end_offset
        return self._log.read(offset, max_bytes, end_offset=end)

    def newest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot; None without any, or with a new directory's at offset 0 only."""
        ids = self._snapshots()
        return ids[0] if ids and ids[0].end_offset else None

    def read_snapshot(self, id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot file, and a part of it.

        Raises KafkaError: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
        """
        entries = self._disk.list_directory(self._log.directory)
        size = next((each.size_bytes for each in entries if each.name == id.file_name), None)
        if size is None:
            raise KafkaError(Error.SNAPSHOT_NOT_FOUND)
        if not 0 <= position < size:
            raise KafkaError(Error.POSITION_OUT_OF_RANGE)
        file = self._disk.open(self._path(id), size)
        try:
            return size, file.pread(max_bytes, position)
        finally:
            file.close()

    def diverging(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) where a replica diverges that ends at an offset; None if it does not.

        `last_fetched_epoch` is the epoch of the replica's last record.
        """
        log = self._log
        if offset == 0 and last_fetched_epoch <= 0:
            return None
        epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
        if end_offset < 0:
            return self.last_epoch, log.end_offset
        if epoch != last_fetched_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    def is_covered(self, offset: int, last_fetched_epoch: int) -> bool:
        """Whether a replica can go on from an offset by Fetch, without a snapshot."""
        start = self._log.start_offset
        if offset < start:
            return False
        if start == 0:
            return True
        first_epoch = next((id.epoch for id in self._snapshots() if id.end_offset == start), None)
        if first_epoch is None:
            first_epoch = self._log.epochs.epoch_at(start)
            return last_fetched_epoch >= first_epoch or offset > start
        return last_fetched_epoch >= first_epoch and (
            offset > start or last_fetched_epoch == first_epoch
        )

    # Leading

    def lead(self) -> None:
        """Accept appends in `epoch`."""
        self._is_leader = True

    def cease(self) -> None:
        """Refuse appends, and drop the callbacks of uncommitted records, which may be lost."""
        self._is_leader = False
        self._callbacks.clear()

    def append(self, batch: bytes) -> int:
        """Append one batch in this epoch; returns the end offset.

        It is committed once a majority of the voters has synced it. Batches that are appended while
        a sync runs share the next one. If a sync fails, `on_failure` is called, and later appends
        are refused. Raises KafkaError for a batch that is not appended: KAFKA_STORAGE_ERROR,
        NOT_CONTROLLER for a node that does not lead, and as in Kafka UNKNOWN_SERVER_ERROR for a
        batch of more than 8 MiB.
        """
        self.check_writable()
        if len(batch) > _MOST_BATCH_BYTES:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR, f"a change of {len(batch)} bytes")
        placed = b"".join(with_prefix(batch, self._log.end_offset, self.epoch))
        self._log.append_as_follower(placed, self._clock.now_ms())
        self._appended(placed)
        end_offset = self._log.end_offset
        self.sync()
        self._changed()
        return end_offset

    def append_control(self, records: Sequence[tuple[int, bytes]]) -> int:
        """Append a batch of control records, as (type, value). Raises as `append`."""
        return self.append(snapshot_file.control_batch(records, self._clock.now_ms()))

    def check_writable(self) -> None:
        """Raise KafkaError: NOT_CONTROLLER, or KAFKA_STORAGE_ERROR after a failed sync."""
        if self.failure is not None:
            raise self.failure
        if not self._is_leader:
            raise KafkaError(Error.NOT_CONTROLLER)

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once the high watermark reaches `offset`; at once if it has.

        Never calls back if this node does not lead, or ceases to lead first: another leader's
        records may replace the record.
        """
        if self._committed >= offset:
            callback()
        elif self._is_leader:
            heapq.heappush(self._callbacks, (offset, next(self._serial), callback))

    # Following

    def take(self, fetched: FetchedLog) -> bool:
        """Apply a response of the leader; False, with no effect, if its request is outdated.

        Raises `DivergedMetadata`, `UnreadableMetadata` and `UnknownMetadata`, after which the
        log must not be used; KafkaError as `Log.append_as_follower`.
        """
        asked, log = fetched.asked, self._log
        if (asked.leader_epoch, asked.offset) != (self.epoch, log.end_offset):
            return False
        if fetched.diverging is not None:
            # The leader's high watermark may cover records here that it does not have.
            self._truncate(*fetched.diverging)
            return True
        if fetched.records:
            before = log.end_offset
            try:
                log.append_as_follower(fetched.records, self._clock.now_ms(), asked.leader_epoch)
            finally:  # An error of the disk may have let some batches through.
                self._received(fetched.records, before)
        self.commit(min(fetched.high_watermark, log.end_offset))
        return True

    def install(
        self, id: SnapshotId, data: bytes, done: Callable[[BaseException | None], None]
    ) -> None:
        """Replace log and state by a snapshot that the leader sent; the log begins again after it.

        It is checked and written by `Sync`; then `done` is called, with None or the exception:
        `BadSnapshot`, with nothing changed; OSError, KafkaError. One at a time.
        """

        def write() -> None:
            for _ in snapshot_file.decode(data):
                pass  # Decode every batch, so that a broken file is not kept.
            self._disk.write_atomic(self._path(id), data)

        def finish(error: BaseException | None) -> None:
            self.is_installing = False
            try:
                if error is None:
                    self._installed(id)
            except (OSError, KafkaError, UnusableDirectory) as failure:
                error = failure
            done(error)
            self._release_settled()

        if id.end_offset <= self._committed:
            done(None)
            return
        self.is_installing = True
        self._sync(write, finish)

    # The quorum state

    def read_state(self) -> QuorumState | None:
        """Read the stored epoch and vote; None if there are none. Raises `BadQuorumState`."""
        return QuorumState.read(self._disk, self._log.directory)

    def write_state(self, state: QuorumState, done: Callable[[BaseException | None], None]) -> None:
        """Replace the stored epoch and vote by `Sync`, and then call `done`; one at a time."""
        self._sync(partial(self._write_state, state), done)

    def now_ms(self) -> int:
        """The clock's time in ms, for actions at the end of a sync."""
        return self._clock.now_ms()

    # Committing

    def commit(self, high_watermark: int) -> None:
        """Raise the high watermark, run the due callbacks, and deliver the newly committed batches.

        Raises `UnreadableMetadata`, `UnknownMetadata`.
        """
        committed = self._committed
        if high_watermark <= committed:
            return
        self._committed = high_watermark
        if self._deliveries.observations:
            try:
                self._deliveries.add(committed, high_watermark)
            except KafkaError as error:
                raise UnreadableMetadata(f"{self._log.directory}: {error}") from error
            self._deliver()
        while self._callbacks and self._callbacks[0][0] <= self._committed:
            heapq.heappop(self._callbacks)[2]()

    def sync(self) -> None:
        """Begin to sync the log; if a sync is in progress, another sync follows it."""
        if self._is_syncing or self.failure is not None:
            return
        try:
            flush = self._log.begin_flush()
        except OSError as error:
            self._not_synced(error)
            return
        if flush is None:
            self._synced = self._log.end_offset
            return
        self._is_syncing = True
        self._sync(flush.run, partial(self._flushed, flush))

    def end(self, error: Exception) -> None:
        """Stop delivering; calls that wait for an offset raise the error."""
        self._is_ended = True
        for observation in self._deliveries.observations:
            observation.close(error)

    def fail(self, error: BaseException) -> None:
        """Refuse all appends: after a failed fsync the content of the disk is unknown.

        The log's directory fails too, and with it the node stops.
        """
        if self.failure is not None:
            return
        logger.critical("%s could not be synced: %s", self._log.name, error)
        self.failure = storage_error(error)
        self._log.fail(f"{self._log.name} could not be synced: {reason_of(error)}")
        if self._log.report is not None and isinstance(error, OSError):
            self._log.report(error)
        if self.on_failure is not None:
            self.on_failure(self.failure)

    @property
    def _last_fetched_epoch(self) -> int:
        log = self._log
        is_empty = log.end_offset == self._snapshot.end_offset
        return self._snapshot.epoch if is_empty else log.epochs.latest

    @property
    def _is_busy(self) -> bool:
        return self._is_syncing or self._is_writing_snapshot or self.is_installing

    def _installed(self, id: SnapshotId) -> None:
        """Continue after a snapshot in the directory, unless the log has come further meanwhile."""
        self._listed = None
        if id.end_offset <= self._committed:
            return
        self._restore(id)
        self._delete_snapshots_before(id)

    def _received(self, records: Buffer, before: int) -> None:
        """Note the appended batches of a response: a cut-off last batch was not appended."""
        for at, header in batches(records):
            if before <= header.base_offset and header.end_offset <= self._log.end_offset:
                self._appended(records[at : at + header.size_bytes])

    def _appended(self, batch: Buffer) -> None:
        header = read_header(batch)
        self._count(header)
        if header.is_control:
            self._note(batch, header.base_offset)
        if self._noted_end == header.base_offset:
            self._noted_end = header.end_offset

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        self._is_syncing = False
        if error is not None:
            if not self._is_ended:
                self._log.withdraw_flush(flush, error)
            self._not_synced(error)
        else:
            self._is_repeating = False
            self._log.finish_flush(flush)
            if self._log.recovery_point >= flush.end_offset:
                self._synced = flush.end_offset
            if self._synced < self._log.end_offset:
                self.sync()
            self._changed()
        self._release_settled()

    def _not_synced(self, error: BaseException) -> None:
        """Try again where nothing is lost; otherwise the log cannot be used any more."""
        if is_passing(error):
            self.again_later(self.sync, error)
        else:
            self.fail(error)

    def _write_state(self, state: QuorumState) -> None:
        """Write the state, and see that the name of the log's directory survives a power cut."""
        directory = self._log.directory
        state.write(self._disk, directory)
        if not self._is_named:
            self._disk.fsync_directory(directory.rpartition("/")[0])
            self._is_named = True

    def _changed(self) -> None:
        if self.on_append is not None and self.failure is None:
            self.on_append()

    def _restore(self, id: SnapshotId) -> None:
        """Deliver a snapshot's records; the log restarts at its end, unless it continues it."""
        log = self._log
        known_epoch = log.epochs.epoch_at(id.end_offset - 1)
        if log.end_offset < id.end_offset or known_epoch not in (id.epoch, NO_EPOCH):
            log.truncate_fully_at(id.end_offset, self._clock.now_ms())
            self._synced = min(self._synced, id.end_offset)
            self._history.clear()
            self._noted_end = id.end_offset
        records: list[object] = []
        for batch in self._read_snapshot(id):
            if not read_header(batch).is_control:
                records += self._codec.decode(batch)
        self._committed = id.end_offset
        self.bytes_since_snapshot = 0
        # The first leader repeats the records of a snapshot at 0 in the log.
        if id.end_offset:
            self._deliveries.add_snapshot(records, id.end_offset)
            self._deliver()

    def _deliver(self) -> None:
        if self._is_leader:
            # This may be in the middle of an append, whose records its machine has yet to replay.
            self._clock.call_later(0, self.deliver)
        else:
            self.deliver()

    def deliver(self) -> None:
        """Deliver committed batches now; after an append, a leader delivers them later."""
        self._deliveries.deliver()

    def _truncate(self, leader_epoch: int, leader_end_offset: int) -> None:
        """Truncate to the end of the newest common epoch; the next fetch checks again."""
        log = self._log
        end_offset = log.epochs.common_end(leader_epoch, leader_end_offset, log.end_offset)
        if end_offset < self._committed:
            raise DivergedMetadata(
                f"{log.directory} diverges from the metadata of the controllers at offset "
                f"{end_offset}, but everything below {self._committed} was committed"
            )
        logger.info("Truncating the metadata log from offset %d to %d", log.end_offset, end_offset)
        log.truncate_to(end_offset, self._clock.now_ms())
        self._history.truncate(end_offset)
        self._noted_end = min(self._noted_end, end_offset)
        self._synced = min(self._synced, end_offset)
