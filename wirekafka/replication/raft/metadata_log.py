"""The metadata log with its snapshot files, as voters and observers share it (KIP-630)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from wirekafka.clock import Clock
from wirekafka.codec.batch import BatchHeader, batches, read_header
from wirekafka.codec.record import decode_records
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.protocol.records.control import ControlType, KRaftVersionRecord, VotersRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.snapshot_file import SnapshotId
from wirekafka.replication.raft.voter_set import QuorumHistory, VoterSet
from wirekafka.runtime.promise import Promise
from wirekafka.runtime.record_codec import RecordCodec
from wirekafka.runtime.replicated_log import Buffer

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_FEWEST_SNAPSHOTS = 2
_RETRY_MS = 200


Sync = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
"""Calls its first argument, which syncs files, on any thread, and then its second argument, on the
caller's thread, with None or the exception that the sync raised. Both calls may happen before it
returns."""


def sync_inline(run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    """A `Sync` that runs on the calling thread, for tests and simulations with a disk in memory."""
    try:
        run()
    except Exception as error:
        done(error)
    else:
        done(None)


class WrongQuorum(UnusableDirectory):
    """The metadata log belongs to a quorum with other voters, or cannot be read without them."""


class MetadataRetention(NamedTuple):
    """How much of the metadata log and of its snapshots is kept; a negative limit is none.

    Options: `metadata.max.retention.bytes`, `metadata.max.retention.ms`.
    """

    max_bytes: int
    max_ms: int


AS_LITTLE_AS_POSSIBLE = MetadataRetention(0, -1)
"""Keeps the two newest snapshots, and what of the log the older one does not cover."""


class _SnapshotWriting(NamedTuple):
    """A snapshot file that `run` writes, the size of the log that it covers, and its age."""

    id: SnapshotId
    covered_bytes: int
    contained_ms: int
    run: Callable[[], None]


class MetadataLog:
    """`__cluster_metadata-0` with its snapshots; subclasses append to it.

    The control records of kraft.version and the voters are noted as batches are read.
    """

    def __init__(
        self, log: Log, disk: Disk, clock: Clock, sync: Sync, retention: MetadataRetention
    ):
        self._log = log
        self._disk = disk
        self._clock = clock
        self._sync = sync
        self._retention = retention
        self._history = QuorumHistory()
        # The control records below this offset are in the history.
        self._noted_end = 0
        # The newest snapshot that was read: the log's epochs may begin after it.
        self._snapshot = SnapshotId(0, 0)
        # The snapshot files, newest first; None before they are listed, and after a change.
        self._listed: list[SnapshotId] | None = None
        # The timestamps of the newest records in snapshots, as far as they were needed.
        self._contained_ms: dict[SnapshotId, int] = {}
        self._committed = 0
        self._last_append_ms = 0
        self._is_writing_snapshot = False
        self._settled: list[Promise[None]] = []
        self._is_ended = False
        # Whether something is being repeated after an error that passes; logged once.
        self._is_repeating = False
        self.bytes_since_snapshot = 0
        """The size of the log after the newest snapshot, which has to be read at a start."""

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        """The log start offset: records below it were deleted."""
        return self._log.start_offset

    @property
    def committed_offset(self) -> int:
        """The high watermark."""
        return self._committed

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version`: 1 once the voters are kept in the log."""
        return self._history.kraft_version

    @property
    def is_dynamic(self) -> bool:
        """Whether the voters are kept in the log rather than in the configuration (KIP-853)."""
        return self._history.kraft_version > 0

    @property
    def voters_before(self) -> VoterSet | None:
        """The previous voter set, while the newest voter set is not known to be committed.

        None if it is committed, or if log and snapshot have no earlier voter set.
        """
        offset = self._history.voters_offset
        uncommitted = offset is not None and offset >= self._committed
        return self._history.voters_before if uncommitted else None

    async def settled(self) -> None:
        """Wait until no sync or snapshot is in progress; does not suspend if none is."""
        if self._is_busy:
            promise: Promise[None] = Promise()
            self._settled.append(promise)
            await promise

    def read_batches(self) -> Iterator[Buffer]:
        """Read the newest snapshot's batches, then the log's batches behind it.

        Raises `BadSnapshot`, or `WrongQuorum` if the log's beginning was deleted and no snapshot
        covers it.
        """
        covered = 0
        self.bytes_since_snapshot = 0
        self._listed = None
        for id in self._snapshots()[:1]:
            covered = id.end_offset
            batches_read = self._read_snapshot(id)
            # A snapshot at offset 0 has the features a new cluster starts with, which the first
            # leader repeats in the log. Only its voters count here.
            yield from (batch for batch in batches_read if covered or read_header(batch).is_control)
        self._check_covered(covered)
        yield from self._counted(self._noted(self._read_log(covered)))
        self._noted_end = max(self._noted_end, self._log.end_offset)

    def read_from(self, offset: int) -> Iterator[Buffer]:
        """Read the batches of the log from an offset to its end."""
        return self._read_log(offset)

    def note_voters(self) -> None:
        """Read kraft.version and the voters from the snapshot and the log, if not done yet.

        Raises as `read_batches`.
        """
        if self._noted_end < max(self._log.end_offset, 1):
            for _ in self.read_batches():
                pass

    def write_snapshot(
        self, records: Iterable[Any], codec: RecordCodec, end_offset: int | None = None
    ) -> SnapshotId:
        """Write a snapshot of the state at `end_offset`, by default the high watermark.

        `records` rebuild that state; `end_offset` must be committed. Older ones are deleted as
        `clean` says. Raises OSError.
        """
        writing = self._snapshot_of(records, codec, end_offset)
        writing.run()
        self._snapshot_written(writing)
        return writing.id

    def begin_snapshot(
        self,
        records: Iterable[Any],
        codec: RecordCodec,
        end_offset: int,
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Write a snapshot like `write_snapshot`, but by `Sync`, which may use another thread.

        `records` are iterated on that thread, so they must come from an image that no longer
        changes. `done` is called on this thread, with None or the exception.
        """
        writing = self._snapshot_of(records, codec, end_offset)

        def finish(error: BaseException | None) -> None:
            self._is_writing_snapshot = False
            try:
                if error is None:
                    self._snapshot_written(writing)
            except (OSError, KafkaError) as failure:
                error = failure
            if isinstance(error, OSError) and self._log.report is not None:
                self._log.report(error)
            done(error)
            self._release_settled()

        self._is_writing_snapshot = True
        try:
            self._sync(writing.run, finish)
        except BaseException:
            self._is_writing_snapshot = False
            raise

    def clean(self, now_ms: int) -> None:
        """Delete the oldest snapshots and segments beyond the limits of the retention.

        As in Kafka, the log begins at the next snapshot while log and snapshots are too large
        together, or the newest record in the oldest snapshot is too old. Beyond Kafka, the two
        newest snapshots and the log between them are always kept: a single unreadable file must
        not lose the metadata. Nothing is deleted while a snapshot takes files. Raises OSError,
        KafkaError.
        """
        if self._disk.holds:
            return
        self._log.delete_retired(now_ms)
        sizes = self._snapshot_sizes()
        found = sorted(sizes)
        for number, id in enumerate(found[: 1 - _FEWEST_SNAPSHOTS]):
            older = found[max(number - 1, 0)]
            if not (self._is_too_large(sizes) or self._is_too_old(older, now_ms)):
                return
            self._delete_snapshots_before(id)
            self._forget_below(id.end_offset, now_ms)
            if older < id:
                del sizes[older]

    def close(self) -> None:
        """Flush and close the files."""
        self._log.close()

    def again_later(self, callback: Callable[[], None], error: BaseException) -> None:
        """Call back soon, after an error of the disk that passes; not once the node stops."""
        if self._is_ended:
            return
        if not self._is_repeating:
            self._is_repeating = True
            logger.error("%s cannot be used; it is retried: %s", self._log.name, error)
        self._clock.call_later(_RETRY_MS, lambda: None if self._is_ended else callback())

    @property
    def _is_busy(self) -> bool:
        return self._is_writing_snapshot

    def _snapshot_of(
        self, records: Iterable[Any], codec: RecordCodec, end_offset: int | None
    ) -> _SnapshotWriting:
        if end_offset is None:
            end_offset = self._committed
        assert end_offset <= self._committed
        id = SnapshotId(end_offset, self._log.epochs.epoch_at(end_offset - 1))
        frame = snapshot_file.Frame(
            now_ms=self._clock.now_ms(),
            last_contained_ms=self._last_append_ms,
            epoch=id.epoch,
            quorum=self._quorum_records(end_offset),
        )
        batches = snapshot_file.encode(records, codec, frame)
        return _SnapshotWriting(
            id,
            self.bytes_since_snapshot,
            self._last_append_ms,
            lambda: self._disk.write_atomic(self._path(id), b"".join(batches)),
        )

    def _snapshot_written(self, writing: _SnapshotWriting) -> None:
        self.bytes_since_snapshot -= writing.covered_bytes
        self._listed = None
        self._contained_ms[writing.id] = writing.contained_ms
        self.clean(self._clock.now_ms())

    def _check_covered(self, offset: int) -> None:
        """Raise `WrongQuorum` if the log starts after `offset`, the end of the newest snapshot."""
        if self._log.start_offset > offset:
            raise WrongQuorum(
                f"{self._log.directory} begins at offset {self._log.start_offset} "
                "and has no snapshot of what came before"
            )

    def _path(self, id: SnapshotId) -> str:
        return f"{self._log.directory}/{id.file_name}"

    def _snapshots(self) -> list[SnapshotId]:
        """The ids of the snapshot files, newest first."""
        if self._listed is None:
            entries = self._disk.list_directory(self._log.directory)
            found = [SnapshotId.parse(entry.name) for entry in entries]
            self._listed = sorted((id for id in found if id is not None), reverse=True)
        return self._listed

    def _snapshot_sizes(self) -> dict[SnapshotId, int]:
        """The sizes of the snapshot files in bytes."""
        sizes = {}
        for entry in self._disk.list_directory(self._log.directory):
            id = SnapshotId.parse(entry.name)
            if id is not None:
                sizes[id] = entry.size_bytes
        return sizes

    def _is_too_large(self, sizes: Mapping[SnapshotId, int]) -> bool:
        kept_bytes = self._log.size_bytes + sum(sizes.values())
        return 0 <= self._retention.max_bytes < kept_bytes

    def _is_too_old(self, id: SnapshotId, now_ms: int) -> bool:
        if self._retention.max_ms < 0:
            return False
        contained_ms = self._contained_ms.get(id)
        if contained_ms is None:
            contained_ms = snapshot_file.contained_ms(self._disk.read(self._path(id)))
            self._contained_ms[id] = contained_ms
        return now_ms - contained_ms > self._retention.max_ms

    def _delete_snapshots_before(self, kept: SnapshotId) -> None:
        """Delete the snapshot files older than `kept`. Raises OSError."""
        older = [id for id in self._snapshots() if id < kept]
        self._listed = None
        for id in older:
            self._disk.unlink(self._path(id))
            self._contained_ms.pop(id, None)

    def _forget_below(self, offset: int, now_ms: int) -> None:
        # None is that old if the log began again after a snapshot that the leader has sent.
        below = [each.base_offset for each in self._log.segments if each.base_offset <= offset]
        if below:
            self._log.advance_start(below[-1])
        self._log.delete_old_segments(now_ms)
        self._log.delete_retired(now_ms)

    def _quorum_records(self, end_offset: int) -> list[tuple[int, bytes]]:
        """The control records of kraft.version and the voters below an offset, for a snapshot."""
        version, voters = self._history.before(end_offset)
        if voters is None:
            return []
        return quorum_records(KRaftVersionRecord(kraft_version=version), voters.to_record())

    def _read_snapshot(self, id: SnapshotId) -> Iterator[Buffer]:
        """Read the batches of a snapshot; its control records count from its last offset on."""
        self._snapshot = id
        for batch in snapshot_file.decode(self._disk.read(self._path(id))):
            header = read_header(batch)
            if header.is_control:
                self._note(batch, id.end_offset - 1)
            yield batch

    def _read_log(self, offset: int, end_offset: int | None = None) -> Iterator[Buffer]:
        """Read the batches from one offset to another, by default the log end."""
        if end_offset is None:
            end_offset = self._log.end_offset
        while offset < end_offset:
            read = self._log.read(offset, _READ_BYTES, end_offset=end_offset)
            data = self._log.load(read)
            before = offset
            for position, header in batches(data):
                if header.base_offset >= offset:
                    yield data[position : position + header.size_bytes]
                offset = max(offset, header.end_offset)
            if offset == before:
                return

    def _counted(self, source: Iterator[Buffer]) -> Iterator[Buffer]:
        for batch in source:
            self._count(read_header(batch))
            yield batch

    def _count(self, header: BatchHeader) -> None:
        """Note the size and time of a batch that is in the log and in no snapshot."""
        self.bytes_since_snapshot += header.size_bytes
        self._last_append_ms = header.max_timestamp

    def _noted(self, source: Iterator[Buffer]) -> Iterator[Buffer]:
        """Yield the batches, and note kraft.version and the voters in their control records."""
        for batch in source:
            header = read_header(batch)
            if header.is_control:
                self._note(batch, header.base_offset)
            yield batch

    def _note(self, batch: Buffer, base_offset: int) -> None:
        for record in decode_records(batch):
            kind = snapshot_file.control_type(record.key)
            value = record.value or b""
            if kind == ControlType.KRAFT_VERSION:
                level = KRaftVersionRecord.decode(value, 0).kraft_version
                self._history.note_version(base_offset, level)
            elif kind == ControlType.KRAFT_VOTERS:
                voters = VoterSet.of_record(VotersRecord.decode(value, 0))
                self._history.note_voters(base_offset, voters)

    def _release_settled(self) -> None:
        if self._is_busy:
            return
        settled = self._settled
        self._settled = []
        for promise in settled:
            promise.set(None)


def quorum_records(version: KRaftVersionRecord, voters: VotersRecord) -> list[tuple[int, bytes]]:
    """Return the control records, as (type, value), of a kraft.version and a voter set."""
    return [
        (ControlType.KRAFT_VERSION, bytes(version.encode(0))),
        (ControlType.KRAFT_VOTERS, bytes(voters.encode(0))),
    ]
