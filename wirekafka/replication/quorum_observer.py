"""The metadata log of an observer: a copy of the quorum leader's log (KIP-595)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.clock import Clock
from wirekafka.codec.batch import read_header
from wirekafka.errors import KafkaError
from wirekafka.log.control_records import VotersRecord
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.replication import snapshot_file
from wirekafka.replication.metadata_log import MetadataLog, Sync, WrongQuorum, sync_inline
from wirekafka.replication.observation import Committed, Observation, Observer
from wirekafka.replication.quorum_state import QuorumState
from wirekafka.replication.record_codec import RecordCodec
from wirekafka.replication.replica import NO_EPOCH, NO_LEADER
from wirekafka.replication.replicated_log import Buffer
from wirekafka.replication.snapshot_file import SnapshotId

logger = logging.getLogger(__name__)


class Position(NamedTuple):
    """The parameters of a Fetch request, which are needed again to check its response."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The partition of a Fetch response without an error, and the position it answers."""

    asked: Position
    high_watermark: int
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where this log diverges from the leader's; `records` is empty then."""


class DivergedMetadata(WrongQuorum):
    """The quorum's leader lacks committed records: it has lost data or is of another cluster."""


class UnreadableMetadata(UnusableDirectory):
    """A committed batch cannot be read or decoded; without it the metadata is incomplete."""


class QuorumObserver(MetadataLog):
    """Appends the leader's batches unchanged, and delivers them to observers once committed.

    It opens no connection: `position` has the parameters of the next Fetch, `take` processes its
    response.
    """

    def __init__(
        self, log: Log, disk: Disk, clock: Clock, codec: RecordCodec, *, sync: Sync = sync_inline
    ):
        super().__init__(log, disk, clock, sync)
        self._codec = codec
        self._observations: list[Observation] = []
        self._snapshot = SnapshotId(0, 0)
        self.leader_id = NO_LEADER
        """The leader of `epoch`, -1 while it is unknown."""
        self.epoch = 0
        """The newest known leader epoch of the quorum."""

    @property
    def position(self) -> Position:
        """The parameters of the next Fetch, which continues at the end of the log."""
        log = self._log
        is_empty = log.end_offset == self._snapshot.end_offset
        return Position(
            leader_epoch=self.epoch,
            offset=log.end_offset,
            last_fetched_epoch=self._snapshot.epoch if is_empty else log.epochs.latest,
            high_watermark=self._committed,
        )

    @property
    def voters(self) -> VotersRecord | None:
        """The voters and their endpoints as kept in the log; None for a static quorum."""
        return self._voters

    def observe(self, observer: Observer, failed: Callable[[Exception], None]) -> Observation:
        """Deliver the newest snapshot to `observer`, then each committed batch, once and in order.

        `failed` is called when the observer has failed too often and gets no more batches.
        """
        observation = Observation(observer, self._clock, self._committed, failed)
        self._observations.append(observation)
        return observation

    def load(self) -> None:
        """Deliver the newest snapshot; the log after it follows once the leader has confirmed it.

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

    def elect(self, leader_id: int, epoch: int, static_voters: Sequence[int]) -> bool:
        """Store a leader and its epoch; False, with no effect, if newer information is known.

        That is a newer epoch, or any state of this epoch if `leader_id` is -1, which means that
        the epoch has no leader yet. Raises OSError.
        """
        if epoch < self.epoch or (epoch == self.epoch and leader_id == NO_LEADER):
            return False
        if (leader_id, epoch) == (self.leader_id, self.epoch):
            return True
        self.leader_id, self.epoch = leader_id, epoch
        voters = None if self.is_dynamic or not static_voters else tuple(static_voters)
        QuorumState(leader_id, epoch, voters).write(self._disk, self._log.directory)
        return True

    def take(self, fetched: Fetched) -> bool:
        """Apply a response of the leader; False, with no effect, if its request is outdated.

        Raises `DivergedMetadata`, `UnreadableMetadata` and `UnknownMetadata`, after which the
        observer must not be used; KafkaError as `Log.append_as_follower`, with nothing appended.
        """
        asked, log = fetched.asked, self._log
        if (asked.leader_epoch, asked.offset) != (self.epoch, log.end_offset):
            return False
        if fetched.diverging is not None:
            # The leader's high watermark may cover records here that it does not have.
            self._truncate(*fetched.diverging)
            return True
        if fetched.records:
            log.append_as_follower(fetched.records, self._clock.now_ms(), asked.leader_epoch)
        self._commit(min(fetched.high_watermark, log.end_offset))
        return True

    def install(self, id: SnapshotId, data: bytes) -> None:
        """Replace log and state by a snapshot that the leader sent; the log begins again after it.

        Raises `BadSnapshot`, with nothing changed; OSError, KafkaError.
        """
        if id.end_offset <= self._committed:
            return
        for _ in snapshot_file.decode(data):
            pass  # Decode every batch, so that a broken file is not kept.
        self._disk.write_atomic(self._path(id), data)
        self._restore(id)
        for older in self._snapshots():
            if older < id:
                self._disk.unlink(self._path(older))

    def end(self, error: Exception) -> None:
        """Stop delivering; calls that wait for an offset raise the error."""
        for observation in self._observations:
            observation.close(error)

    def _restore(self, id: SnapshotId) -> None:
        """Deliver a snapshot's records; the log restarts at its end, unless it continues it."""
        records: list[object] = []
        for batch in self._noted(snapshot_file.decode(self._disk.read(self._path(id)))):
            if not read_header(batch).is_control:
                records += self._codec.decode(batch)
        log = self._log
        known_epoch = log.epochs.epoch_at(id.end_offset - 1)
        if log.end_offset < id.end_offset or known_epoch not in (id.epoch, NO_EPOCH):
            log.truncate_fully_at(id.end_offset, self._clock.now_ms())
        self._snapshot = id
        self._committed = id.end_offset
        self.bytes_since_snapshot = 0
        # The first leader repeats the records of a snapshot at 0 in the log.
        if id.end_offset:
            self._deliver(Committed(records, id.end_offset, is_snapshot=True))

    def _commit(self, high_watermark: int) -> None:
        """Raise the high watermark, and deliver what it now covers. Raises as `take`."""
        committed = self._committed
        if high_watermark <= committed:
            return
        self._committed = high_watermark
        try:
            for batch in self._noted(self._read_log(committed, high_watermark)):
                header = read_header(batch)
                records = () if header.is_control else tuple(self._codec.decode(batch))
                self._deliver(Committed(records, header.end_offset))
        except KafkaError as error:
            raise UnreadableMetadata(f"{self._log.directory}: {error}") from error

    def _deliver(self, committed: Committed) -> None:
        for observation in self._observations:
            observation.add(committed)
            observation.deliver()

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
