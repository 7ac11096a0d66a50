"""The log of a controller quorum: committed once a majority of the voters has it (KIP-595)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from wirekafka.clock import Clock
from wirekafka.codec.batch import with_prefix
from wirekafka.errors import Error, KafkaError
from wirekafka.log.control_records import (
    ControlType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from wirekafka.log.files import Disk
from wirekafka.log.flush import Flush
from wirekafka.log.log import Log
from wirekafka.replication import snapshot_file
from wirekafka.replication.metadata_log import (
    MetadataLog,
    Sync,
    WrongQuorum,
    quorum_records,
    sync_inline,
)
from wirekafka.replication.quorum_state import QuorumState


@dataclass(frozen=True)
class Voter:
    """A controller with a vote; `endpoints` are (listener name, host, port)."""

    id: int
    directory_id: bytes
    endpoints: tuple[tuple[str, str, int], ...] = ()


class QuorumLog(MetadataLog):
    """A `ReplicatedLog` over `__cluster_metadata-0`.

    Kafka writes a NoOp record every half second, so that followers see a live leader. This log has
    no followers that wait for them, and they would be most of it: none is written.
    """

    def __init__(
        self, log: Log, disk: Disk, clock: Clock, voter: Voter, *, sync: Sync = sync_inline
    ):
        super().__init__(log, disk, clock, sync)
        self._voter = voter
        # The end offset that each voter is known to have synced.
        self._acknowledged = {voter.id: log.end_offset}
        self._committed = log.end_offset
        self._callbacks: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()
        self._is_syncing = False
        self.failure: KafkaError | None = None
        """The error of a failed sync, after which the log accepts no appends; None before."""
        self.on_failure: Callable[[KafkaError], None] | None = None
        """Called once, when a sync has failed."""
        self.epoch = 0
        """The leader epoch of this node; 0 before `lead`."""

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The voters, ordered by id."""
        return (self._voter,)

    def check_alone(self) -> None:
        """Raise `WrongQuorum` if there are other voters, `BadQuorumState` for a broken file.

        Call it after `read_batches`; nothing is written.
        """
        state = QuorumState.read(self._disk, self._log.directory)
        if self._voters is not None:
            ids = [voter.voter_id for voter in self._voters.voters]
        else:
            ids = list(state.voters or ()) if state else []
        if ids and ids != [self._voter.id]:
            raise WrongQuorum(
                f"{self._log.directory} belongs to a quorum of controllers {ids}; "
                f"node {self._voter.id} cannot lead it alone"
            )

    def lead(self) -> None:
        """Become leader in a new epoch. Raises as `check_alone`."""
        self.check_alone()
        state = QuorumState.read(self._disk, self._log.directory)
        seen = max(self._log.epochs.latest, state.leader_epoch if state else 0, 0)
        self.epoch = seen + 1
        voters = None if self._kraft_version else (self._voter.id,)
        QuorumState(self._voter.id, self.epoch, voters).write(self._disk, self._log.directory)
        self._append_control([(ControlType.LEADER_CHANGE, self._leader_change())])
        # A node without a controller listener keeps the endpoints that were written before.
        moved = self._voters is not None and self._voters.voters != [self._own_voter()]
        if moved and self._voter.endpoints:
            self._voters = VotersRecord(voters=[self._own_voter()])
            self._append_control([(ControlType.KRAFT_VOTERS, bytes(self._voters.encode(0)))])

    def keep_voters(self) -> None:
        """Write the voters to the log, irreversibly (kraft.version 1). Raises as `append`."""
        version, voters = (
            KRaftVersionRecord(kraft_version=1),
            VotersRecord(voters=[self._own_voter()]),
        )
        self._append_control(quorum_records(version, voters))
        self._kraft_version, self._voters = 1, voters

    def append(self, batch: bytes) -> int:
        """Append one batch in this epoch; returns the end offset. It is committed once synced.

        Batches that are appended while a sync runs share the next one. If a sync fails, none of
        its batches is ever committed, `on_failure` is called, and later appends are refused.
        Raises KafkaError(KAFKA_STORAGE_ERROR) for a batch that is not appended.
        """
        assert self.epoch, "only a leader appends"
        self.check_writable()
        placed = b"".join(with_prefix(batch, self._log.end_offset, self.epoch))
        self._log.append_as_follower(placed, self._clock.now_ms())
        self.bytes_since_snapshot += len(placed)
        self._last_append_ms = self._clock.now_ms()
        end_offset = self._log.end_offset
        if not self._is_syncing:
            self._begin_sync()
        return end_offset

    def check_writable(self) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) if a sync has failed."""
        if self.failure is not None:
            raise self.failure

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once the high watermark reaches `offset`; at once if it has."""
        if self._committed >= offset:
            callback()
        else:
            heapq.heappush(self._callbacks, (offset, next(self._serial), callback))

    @property
    def _is_busy(self) -> bool:
        return self._is_syncing or self._is_writing_snapshot

    def _leader_change(self) -> bytes:
        # Always version 0: Kafka 4.4 writes no other and cannot read one.
        message = LeaderChangeMessage
        voter = message.Voter(voter_id=self._voter.id)
        return bytes(
            message(leader_id=self._voter.id, voters=[voter], granting_voters=[voter]).encode(0)
        )

    def _own_voter(self) -> VotersRecord.Voter:
        voter = VotersRecord.Voter
        return voter(
            voter_id=self._voter.id,
            voter_directory_id=self._voter.directory_id,
            endpoints=[
                voter.Endpoint(name=name, host=host, port=port)
                for name, host, port in self._voter.endpoints
            ],
            kraft_version_feature=voter.KRaftVersionFeature(
                min_supported_version=0, max_supported_version=1
            ),
        )

    def _append_control(self, records: list[tuple[int, bytes]]) -> None:
        self.append(snapshot_file.control_batch(records, self._clock.now_ms()))

    def _begin_sync(self) -> None:
        try:
            flush = self._log.begin_flush()
        except OSError as error:
            self._fail(error)
            return
        if flush is None:
            self._acknowledge(self._log.end_offset)
            return
        self._is_syncing = True
        self._sync(flush.run, partial(self._synced, flush))

    def _synced(self, flush: Flush, error: BaseException | None) -> None:
        self._is_syncing = False
        if error is not None:
            self._fail(error)
        else:
            self._log.finish_flush(flush)
            self._acknowledge(flush.end_offset)
            if (
                flush.end_offset < self._log.end_offset
                and not self._is_syncing
                and self.failure is None
            ):
                self._begin_sync()
        self._release_settled()

    def _fail(self, error: BaseException) -> None:
        """Refuse all appends: after a failed fsync it is unknown what the disk holds."""
        self._log.fail(f"{self._log.name} could not be synced: {error}")
        if self._log.report is not None and isinstance(error, OSError):
            self._log.report(error)
        self.failure = KafkaError(Error.KAFKA_STORAGE_ERROR, str(error))
        if self.on_failure is not None:
            self.on_failure(self.failure)

    def _acknowledge(self, offset: int) -> None:
        """Raise the high watermark to what a majority has synced, and run the callbacks due."""
        self._acknowledged[self._voter.id] = offset
        held = sorted(self._acknowledged.values(), reverse=True)
        self._committed = max(self._committed, held[len(held) // 2])
        while self._callbacks and self._callbacks[0][0] <= self._committed:
            heapq.heappop(self._callbacks)[2]()
