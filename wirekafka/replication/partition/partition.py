"""A partition on this broker: its replica, its role as leader or follower, and reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from wirekafka.clock import Clock
from wirekafka.codec.batch import batches
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.log import Log
from wirekafka.replication.partition.follower import ReplicaFollower
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.mirror_leader import MirrorLeader
from wirekafka.replication.partition.reading import FoundOffset, ReadRange, ReadResult
from wirekafka.replication.partition.remote_log import Pending, RemoteLog, RemoteResult
from wirekafka.replication.partition.replica import NO_EPOCH, Leadership, PartitionIdentity, Replica
from wirekafka.runtime.replicated_log import Buffer

_READ_BYTES = 1 << 20


class Partition(Replica):
    """A replica that leads, follows, or has no role yet; as leader it is also a `ReplicatedLog`.

    `lead` and `follow` switch the role when the metadata image changes.
    """

    __slots__ = ("follower", "leader", "remote")

    def __init__(self, identity: PartitionIdentity, log: Log, node_id: int, clock: Clock):
        super().__init__(identity, log, node_id, clock)
        self.leader: Leader | None = None
        """The leader's role, while this replica has it."""
        self.follower: ReplicaFollower | None = None
        """The follower's role, while this replica has it."""
        self.remote: RemoteLog | None = None
        """The part of the log below the local start that is in remote storage; None if none."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition, as far as it knows."""
        return self.leader is not None

    def configure(self, config: TopicConfig) -> None:
        """Take over the topic's configuration."""
        self.log.config = config
        self.note_synced()
        leader = self.leader
        if leader is None:
            return
        if config.is_mirror != isinstance(leader, MirrorLeader):
            # It becomes a mirror, or an ordinary topic: what waits for the old role looks again.
            self.leader = None
            self.lead(self.leadership)
            if not config.is_mirror:
                self.leading().abort_transactions()
        else:
            leader.configure()

    def use_log(self, log: Log) -> None:
        """Continue on a copy of the log in another directory, in the present role.

        The copy has the same batches; it takes over the producer states, with the guards of
        transactions.
        """
        old = self.log
        assert (log.start_offset, log.end_offset) == (old.start_offset, old.end_offset)
        log.producers = old.producers
        log.remote = old.remote
        self.log = log
        self.note_synced()
        if self.leader is not None:
            self.leader.use_log(log)
        if self.follower is not None:
            self.follower = ReplicaFollower(self)
        self.wake_all()

    # Roles.

    def lead(self, leadership: Leadership) -> None:
        """Become or remain the leader; a new leader epoch starts at the end of the log.

        Within an epoch this sets a new ISR or assignment. A `leadership` with an older
        partition epoch than the present one is ignored.
        """
        assert leadership.leader_id == self.node_id, leadership
        known = self.leadership
        if leadership.partition_epoch < known.partition_epoch:
            return
        self.leadership = leadership
        self.follower = None
        leader = self.leader
        if leader is None or leadership.leader_epoch > known.leader_epoch:
            leader = leader or (MirrorLeader if self.log.config.is_mirror else Leader)(self)
            leader.begin_epoch(leadership.leader_epoch)
        self.leader = leader
        leader.assign()
        self.wake_all()

    def follow(self, leadership: Leadership) -> None:
        """Follow another broker, or none while the partition has no leader (-1).

        Requests parked on this replica as leader are woken, and fail with NOT_LEADER_OR_FOLLOWER.
        """
        assert leadership.leader_id != self.node_id, leadership
        if leadership.partition_epoch < self.leadership.partition_epoch:
            return
        self.leadership = leadership
        self.leader = None
        if self.follower is None:
            self.follower = ReplicaFollower(self)
            self.forget_commits()
        self.wake_all()

    def leading(self, current_leader_epoch: int = NO_EPOCH) -> Leader:
        """Return the leader role, checking the leader epoch of a request (KIP-320); -1 is any.

        KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch not in (NO_EPOCH, self.leadership.leader_epoch):
            self.check_leader_epoch(current_leader_epoch)
        leader = self.leader
        if leader is None:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        return leader

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raise KafkaError unless a request has the current leader epoch (KIP-320), or -1 for any.

        FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer epoch.
        """
        leader_epoch = self.leadership.leader_epoch
        if current_leader_epoch != leader_epoch and current_leader_epoch != NO_EPOCH:
            raise KafkaError(
                Error.FENCED_LEADER_EPOCH
                if current_leader_epoch < leader_epoch
                else Error.UNKNOWN_LEADER_EPOCH
            )

    def synced(self) -> bool:
        """Acknowledge a finished sync; False if records appended since need another sync."""
        self.note_synced()
        if self.leader is not None:
            self.leader.advance()
        self.wake_all()
        return not self.awaits_sync

    # As a replicated log.

    @property
    def end_offset(self) -> int:
        """The log end offset: the offset of the next record."""
        return self.log.end_offset

    @property
    def committed_offset(self) -> int:
        """The high watermark."""
        return self.high_watermark

    def append(self, batch: bytes) -> int:
        """Append a coordinator's batch; returns the new end offset.

        KafkaError as `Leader.append_from_coordinator`, or NOT_LEADER_OR_FOLLOWER.
        """
        return self.leading().append_from_coordinator(batch).end_offset

    def read_batches(self) -> Iterable[Buffer]:
        """All batches of the local log, oldest first."""
        return self._batches()

    # As a reader.

    @property
    def mirror(self) -> MirrorLeader | None:
        """The leader's role, if the topic is a mirror of another cluster's."""
        return self.leader if isinstance(self.leader, MirrorLeader) else None

    @property
    def end_epoch(self) -> int:
        """The leader epoch at the end of the log, which in a mirror is the source's."""
        return self.leader_epoch if self.mirror is None else self.log.epochs.latest

    @property
    def start_offset(self) -> int:
        """The log start offset, remote storage included."""
        remote = self.log.remote  # Without a further call: followers' fetches compare it.
        return self.log.start_offset if remote is None else remote.start_offset

    def read(self, wanted: ReadRange) -> ReadResult | Pending[RemoteResult]:
        """Read whole batches, with the partition's offsets for the response.

        The result has to be awaited if, and only if, the batches are in remote storage.
        KafkaError: as `leading`, or as `check_leader_epoch` for reads from any replica;
        OFFSET_OUT_OF_RANGE outside of the log; OFFSET_MOVED_TO_TIERED_STORAGE for a follower,
        which has to fetch from there.
        """
        if wanted.from_any_replica:
            self.check_leader_epoch(wanted.current_leader_epoch)
        else:
            self.leading(wanted.current_leader_epoch)
        log, remote = self.log, self.remote
        start_offset = log.start_offset
        if remote is not None:
            if wanted.offset < start_offset:
                return self._read_remote(wanted, remote)
            start_offset = log.first_offset
        found = ReadResult(
            high_watermark=self.high_watermark,
            start_offset=start_offset,
            last_stable_offset=self.last_stable_offset,
        )
        last_epoch = wanted.last_fetched_epoch
        if last_epoch != NO_EPOCH and not (
            # The usual case: a follower, or a consumer, within the newest epoch.
            last_epoch == log.epochs.latest and log.start_offset <= wanted.offset <= log.end_offset
        ):
            found.diverging = self._divergence(wanted)
            if found.diverging is not None:
                return found
        if wanted.to_log_end:
            end_offset = log.end_offset
        else:
            end_offset = found.last_stable_offset if wanted.committed else found.high_watermark
        found.records = log.read(
            wanted.offset, wanted.max_bytes, end_offset=end_offset, at_least_one=wanted.at_least_one
        )
        return found

    def read_nothing(self, current_leader_epoch: int) -> ReadResult:
        """Return the offsets of `read` without records, for a consumer that should read elsewhere.

        Raises KafkaError as `check_leader_epoch`.
        """
        self.check_leader_epoch(current_leader_epoch)
        return ReadResult(
            high_watermark=self.high_watermark,
            start_offset=self.start_offset,
            last_stable_offset=self.last_stable_offset,
        )

    def earliest(self) -> FoundOffset:
        """The log start offset, remote storage included (ListOffsets -2)."""
        return self._start_at(self.start_offset)

    def earliest_local(self) -> FoundOffset:
        """The start offset of the log on this broker's disks (ListOffsets -4)."""
        return self._start_at(self.log.start_offset)

    def latest_tiered(self) -> FoundOffset | None:
        """The last record that is in remote storage (ListOffsets -5); None if none is."""
        remote = self.log.remote
        if remote is None or remote.copied_end_offset <= 0:
            return None
        return self._start_at(remote.copied_end_offset - 1)

    def earliest_pending_upload(self) -> FoundOffset | None:
        """The first record that is not in remote storage yet (ListOffsets -6); None: unknown."""
        log, remote = self.log, self.log.remote
        if remote is None:
            return None
        if remote.copied_end_offset > 0:
            return self._start_at(max(remote.copied_end_offset, remote.start_offset))
        # Nothing is there, unless it was deleted.
        return self.earliest() if remote.start_offset == log.start_offset else None

    def newest(self) -> FoundOffset | None:
        """The first record with the largest timestamp (ListOffsets -3); None in an empty log."""
        return FoundOffset.of(self.log.max_timestamp_offset())

    def at_timestamp(self, timestamp: int) -> FoundOffset | None:
        """The first local record with this timestamp in ms or later; None if there is none."""
        return FoundOffset.of(self.log.offset_for_timestamp(timestamp))

    def check_available(self) -> None:
        """Raise KafkaError(OFFSET_NOT_AVAILABLE) while a new leader's high watermark is unknown.

        A client might otherwise get an offset below an offset that it got earlier (KIP-207).
        """
        if self.leader is not None and self.high_watermark < self.leader.epoch_start_offset:
            raise KafkaError(Error.OFFSET_NOT_AVAILABLE)

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start offset, to the high watermark for -1; returns the new start.

        All live replicas have deleted the records once `Leader.low_watermark` has reached it.
        KafkaError: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE; POLICY_VIOLATION in a mirror.
        """
        self.leading().check_writable()
        if before_offset == -1:
            before_offset = self.high_watermark
        if before_offset < 0 or before_offset > self.high_watermark:
            raise KafkaError(Error.OFFSET_OUT_OF_RANGE)
        if before_offset > self.log.first_offset:
            self.log.advance_start(before_offset)
        self.wake()
        return before_offset

    def _read_remote(self, wanted: ReadRange, remote: RemoteLog) -> Pending[RemoteResult]:
        start_offset = self.log.first_offset
        if wanted.offset < start_offset:
            raise KafkaError(Error.OFFSET_OUT_OF_RANGE)
        if wanted.to_log_end:
            raise KafkaError(Error.OFFSET_MOVED_TO_TIERED_STORAGE)
        # A copy: the caller reuses its range for the next partition.
        return remote.read(
            replace(wanted),
            RemoteResult(
                high_watermark=self.high_watermark,
                start_offset=start_offset,
                last_stable_offset=self.last_stable_offset,
            ),
        )

    def _start_at(self, offset: int) -> FoundOffset:
        return FoundOffset(offset=offset, leader_epoch=self.log.epochs.epoch_at(offset))

    def _divergence(self, wanted: ReadRange) -> tuple[int, int] | None:
        epoch, end_offset = self.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == -1 or wanted.offset < self.log.start_offset:
            raise KafkaError(Error.OFFSET_OUT_OF_RANGE)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.offset:
            return epoch, end_offset
        return None

    def _batches(self) -> Iterator[Buffer]:
        offset = self.log.start_offset
        while offset < self.log.end_offset:
            found = self.log.read(
                offset, _READ_BYTES, end_offset=self.log.end_offset, at_least_one=True
            )
            data = memoryview(self.log.load(found))
            if not data:
                return  # Compaction left nothing up to the end.
            for position, header in batches(data):
                yield data[position : position + header.size_bytes]
                offset = header.end_offset
