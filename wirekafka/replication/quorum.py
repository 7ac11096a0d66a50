"""The log of a quorum of controllers: committed is what a majority of the voters has (KIP-595)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from wirekafka.clock import Clock
from wirekafka.codec.batch import batches, with_prefix
from wirekafka.codec.record import decode_records
from wirekafka.errors import Error, KafkaError
from wirekafka.log.control import (
    ControlType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.replication import snapshot
from wirekafka.replication.quorum_state import QuorumState
from wirekafka.replication.record_codec import RecordCodec
from wirekafka.replication.replicated_log import Buffer
from wirekafka.replication.snapshot import SnapshotId

_READ_BYTES = 1 << 20
_KEPT_SNAPSHOTS = 2


class WrongQuorum(UnusableDirectory):
    """The directory belongs to a quorum that this node cannot be all of."""


@dataclass(frozen=True)
class Voter:
    """A controller that votes; `endpoints` are (listener name, host, port)."""

    id: int
    directory_id: bytes
    endpoints: tuple[tuple[str, str, int], ...] = ()


class QuorumLog:
    """A `ReplicatedLog` over `__cluster_metadata-0`.

    Kafka writes a NoOp record every half second, so that followers see the leader go on. Nobody
    waits for them here, and they would be most of the log: none is written.
    """

    def __init__(self, log: Log, disk: Disk, clock: Clock, voter: Voter):
        self._log = log
        self._disk = disk
        self._clock = clock
        self._voter = voter
        self._voters: VotersRecord | None = None
        self._kraft_version = 0
        # How far each voter is known to have the log, on its medium.
        self._acknowledged = {voter.id: log.end_offset}
        self._committed = log.end_offset
        self._callbacks: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()
        self._last_append_ms = 0
        self.epoch = 0
        """Of this node's leadership; 0 before `lead`."""
        self.bytes_since_snapshot = 0
        """How much of the log a start has to read behind the newest snapshot."""

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        """The first offset still there."""
        return self._log.start_offset

    @property
    def committed_offset(self) -> int:
        """The high watermark."""
        return self._committed

    @property
    def voters(self) -> tuple[Voter, ...]:
        """Who votes, by id."""
        return (self._voter,)

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version`: 1 once the voters are kept in the log."""
        return self._kraft_version

    @property
    def is_dynamic(self) -> bool:
        """Whether the voters are kept in the log rather than in the configuration (KIP-853)."""
        return self._kraft_version > 0

    def check_alone(self) -> None:
        """Raises `WrongQuorum` when others have a vote, `BadQuorumState` for a broken file.

        To be called once all was read; nothing is written.
        """
        state = QuorumState.read(self._disk, self._log.directory)
        if self._voters is not None:
            ids = [voter.voter_id for voter in self._voters.voters]
        else:
            ids = list(state.voters or ()) if state else []
        if ids and ids != [self._voter.id]:
            raise WrongQuorum(f"{self._log.directory} belongs to a quorum of controllers {ids}; "
                              f"node {self._voter.id} cannot lead it alone")

    def lead(self) -> None:
        """Take up leadership in a new epoch. Raises as `check_alone`."""
        self.check_alone()
        state = QuorumState.read(self._disk, self._log.directory)
        seen = max(self._log.epochs.latest, state.leader_epoch if state else 0, 0)
        self.epoch = seen + 1
        voters = None if self._kraft_version else (self._voter.id,)
        QuorumState(self._voter.id, self.epoch, voters).write(self._disk, self._log.directory)
        self._append_control([(ControlType.LEADER_CHANGE, self._leader_change())])
        # A node that lets nobody else in as controller leaves standing where it once could.
        moved = self._voters is not None and self._voters.voters != [self._own_voter()]
        if moved and self._voter.endpoints:
            self._voters = VotersRecord(voters=[self._own_voter()])
            self._append_control([(ControlType.KRAFT_VOTERS, bytes(self._voters.encode(0)))])

    def keep_voters(self) -> None:
        """Keep the voters in the log from now on; no way leads back. Raises as `append`."""
        version, voters = KRaftVersionRecord(kraft_version=1), VotersRecord(
            voters=[self._own_voter()])
        self._append_control(_quorum_records(version, voters))
        self._kraft_version, self._voters = 1, voters

    def append(self, batch: bytes) -> int:
        """Append one batch at the end, in this epoch, and see it to the medium.

        Raises KafkaError(KAFKA_STORAGE_ERROR); the log takes no more once a sync has failed.
        """
        assert self.epoch, "only a leader appends"
        placed = b"".join(with_prefix(batch, self._log.end_offset, self.epoch))
        self._log.append_as_follower(placed, self._clock.now_ms())
        try:
            self._log.flush()
        except OSError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        self.bytes_since_snapshot += len(placed)
        self._last_append_ms = self._clock.now_ms()
        self._acknowledged[self._voter.id] = self._log.end_offset
        self._advance()
        return self._log.end_offset

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call once the high watermark reaches `offset`."""
        if self._committed >= offset:
            callback()
        else:
            heapq.heappush(self._callbacks, (offset, next(self._serial), callback))

    def read_batches(self) -> Iterator[Buffer]:
        """The newest snapshot's batches, then all that follows it in the log.

        Raises `BadSnapshot`, or `WrongQuorum` if the log's beginning is gone and no snapshot
        stands for it.
        """
        covered = 0
        self.bytes_since_snapshot = 0
        for id in self._snapshots()[:1]:
            covered = id.end_offset
            yield from self._noted(snapshot.decode(self._disk.read(self._path(id))))
        if self._log.start_offset > covered:
            raise WrongQuorum(f"{self._log.directory} begins at offset {self._log.start_offset} "
                              "and has no snapshot of what was before")
        yield from self._noted(self._read_log(covered))

    def write_snapshot(self, records: Iterable[Any], codec: RecordCodec) -> SnapshotId:
        """Have these records stand for all that is committed; they are those of its fold.

        What they stand for goes, as far as it is whole segments, once it is covered by an older
        snapshot too: one file that cannot be read must not be all there is. Raises OSError.
        """
        now_ms = self._clock.now_ms()
        id = SnapshotId(self._committed, self._log.epochs.epoch_at(self._committed - 1))
        batches = snapshot.encode(records, codec, snapshot.Frame(
            now_ms=now_ms, last_contained_ms=self._last_append_ms, epoch=id.epoch,
            quorum=self._quorum_records()))
        self._disk.write_atomic(self._path(id), b"".join(batches))
        self.bytes_since_snapshot = 0
        kept = [id, *(older for older in self._snapshots() if older < id)][:_KEPT_SNAPSHOTS]
        for older in self._snapshots():
            if older < kept[-1]:
                self._disk.unlink(self._path(older))
        if len(kept) == _KEPT_SNAPSHOTS:
            self._forget_below(kept[-1].end_offset, now_ms)
        return id

    def close(self) -> None:
        """Flush and close the files."""
        self._log.close()

    def _path(self, id: SnapshotId) -> str:
        return f"{self._log.directory}/{id.file_name}"

    def _snapshots(self) -> list[SnapshotId]:
        """Newest first."""
        entries = self._disk.list_directory(self._log.directory)
        found = [SnapshotId.parse(entry.name) for entry in entries]
        return sorted((id for id in found if id is not None), reverse=True)

    def _forget_below(self, offset: int, now_ms: int) -> None:
        start = max(segment.base_offset for segment in self._log.segments
                    if segment.base_offset <= offset)
        self._log.advance_start(start)
        self._log.delete_old_segments(now_ms)
        self._log.delete_retired(now_ms)

    def _quorum_records(self) -> list[tuple[int, bytes]]:
        """What a snapshot has to say of a quorum that is kept in the log."""
        if self._voters is None:
            return []
        version = KRaftVersionRecord(kraft_version=self._kraft_version)
        return _quorum_records(version, self._voters)

    def _read_log(self, offset: int) -> Iterator[Buffer]:
        while offset < self._log.end_offset:
            read = self._log.read(offset, _READ_BYTES, end_offset=self._log.end_offset)
            data = b"".join(read.buffers())
            before = offset
            for position, header in batches(data):
                if header.base_offset >= offset:
                    self.bytes_since_snapshot += header.size_bytes
                    self._last_append_ms = header.max_timestamp
                    yield data[position:position + header.size_bytes]
                offset = max(offset, header.end_offset)
            if offset == before:
                return

    def _noted(self, source: Iterator[Buffer]) -> Iterator[Buffer]:
        """Pass batches on, keeping what control records say about the quorum."""
        for batch in source:
            _, header = next(batches(batch))
            if header.is_control:
                for record in decode_records(batch):
                    self._note(snapshot.control_type(record.key), record.value or b"")
            yield batch

    def _note(self, kind: int, value: bytes) -> None:
        if kind == ControlType.KRAFT_VERSION:
            self._kraft_version = KRaftVersionRecord.decode(value, 0).kraft_version
        elif kind == ControlType.KRAFT_VOTERS:
            self._voters = VotersRecord.decode(value, 0)

    def _leader_change(self) -> bytes:
        # Version 0 in every quorum: Kafka 4.3 writes no other and cannot read one.
        message = LeaderChangeMessage
        voter = message.Voter(voter_id=self._voter.id)
        return bytes(message(leader_id=self._voter.id, voters=[voter],
                             granting_voters=[voter]).encode(0))

    def _own_voter(self) -> VotersRecord.Voter:
        voter = VotersRecord.Voter
        return voter(
            voter_id=self._voter.id,
            voter_directory_id=self._voter.directory_id,
            endpoints=[voter.Endpoint(name=name, host=host, port=port)
                       for name, host, port in self._voter.endpoints],
            kraft_version_feature=voter.KRaftVersionFeature(
                min_supported_version=0, max_supported_version=1),
        )

    def _append_control(self, records: list[tuple[int, bytes]]) -> None:
        self.append(snapshot.control_batch(records, self._clock.now_ms()))

    def _advance(self) -> None:
        """Raise the high watermark to what a majority has, and tell who waits for it."""
        held = sorted(self._acknowledged.values(), reverse=True)
        self._committed = max(self._committed, held[len(held) // 2])
        while self._callbacks and self._callbacks[0][0] <= self._committed:
            heapq.heappop(self._callbacks)[2]()


def _quorum_records(version: KRaftVersionRecord, voters: VotersRecord) -> list[tuple[int, bytes]]:
    return [(ControlType.KRAFT_VERSION, bytes(version.encode(0))),
            (ControlType.KRAFT_VOTERS, bytes(voters.encode(0)))]
