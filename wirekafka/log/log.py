"""A partition's log: appended to at the end, read anywhere, deleted from the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from wirekafka.codec.batch import PREFIX, BatchHeader, Buffer
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log import fetched_batches, lookup, recovery, retention
from wirekafka.log.aborted_index import AbortedTransaction, CorruptIndex, aborted_between
from wirekafka.log.append import Append, Appended
from wirekafka.log.disk_errors import InDoubt, is_passing, reason_of, storage_error
from wirekafka.log.epochs import EpochEntry
from wirekafka.log.fetched_batches import NEWEST_EPOCH, Received
from wirekafka.log.files import Disk
from wirekafka.log.flush import Flush
from wirekafka.log.lookup import TimestampOffset
from wirekafka.log.producers import BatchSpan, CompletedTransaction, CorruptSnapshot
from wirekafka.log.recovery import Opening, Parts
from wirekafka.log.retention import Horizon, RemotePart
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET, BadBatch
from wirekafka.log.segment import BatchShape, Segment
from wirekafka.log.segments import Segments
from wirekafka.log.slice import NOTHING, LogSlice, ReadLimits
from wirekafka.log.validate import validate
from wirekafka.protocol.records.control import Marker, decode_marker

_pack_prefix = PREFIX.pack
OVER_BUDGET = "its log directory has exhausted its disk budget"
"""The refusal that excepts ends of transactions: what is behind an open one, nobody can read, so
that it could never go."""
_new: Any = tuple.__new__  # Half the price of a NamedTuple's own constructor.


class Log:
    """The log of one partition. Not thread-safe, except `Flush.run`; offset ranges are half-open.

    A refused append leaves the log as it was. Disk errors raise KAFKA_STORAGE_ERROR.
    """

    __slots__ = (
        "_closed_end",
        "_config",
        "_disk",
        "_failure",
        "_generation",
        "_refusal",
        "_snapshots",
        "_synced_names",
        "_trusted_end",
        "directory",
        "end_offset",
        "epochs",
        "name",
        "partition",
        "producers",
        "recovery_point",
        "refused_appends",
        "released_offset",
        "remote",
        "report",
        "segments",
        "start_offset",
        "topic",
        "unread_from",
    )

    def __init__(self, disk: Disk, directory: str, config: TopicConfig, parts: Parts):
        self._disk = disk
        self._config = config
        self._closed_end = -1
        """The end offset at the last `close`, while its files are not synced yet; else -1."""
        self._trusted_end = parts.trusted_end
        self._failure: str | None = None
        self._generation = 0
        self._refusal: str | None = None
        self._snapshots = parts.snapshots
        # A clean stop has synced the directory.
        self._synced_names = parts.trusted_end >= 0
        self.report: Callable[[OSError], None] | None = None
        """Called with each error of the disk, which is raised as well."""
        self.directory = directory
        self.name = recovery.log_name(directory)
        """`<topic>-<partition>`."""
        topic, _, partition = self.name.rpartition("-")
        self.topic = topic
        self.partition = int(partition)
        self.producers = parts.producers
        self.epochs = parts.epochs
        self.start_offset = parts.start_offset
        """Where the records on this disk begin."""
        self.end_offset = parts.end_offset
        self.remote = RemotePart(parts.remote_start_offset) if config.is_tiered else None
        """The part of the log that is in remote storage; None if its topic is not tiered."""
        if self.remote is not None:
            self.epochs.keep()
        self.recovery_point = parts.recovery_point
        self.refused_appends = 0
        """How often an append was refused for `refusal`."""
        self.released_offset = -1
        """Up to where the table has the records, for a topic whose retention waits for it; -1 while
        that is not known."""
        self.unread_from = -1
        """From where on a group has not read yet, for a topic whose unread records are kept; -1
        while that is not known."""
        self.segments = Segments(disk, directory, config, parts.segments)
        """Oldest first; the last one is appended to."""

    @classmethod
    def create(cls, disk: Disk, directory: str, config: TopicConfig, now_ms: int) -> Log:
        """Create an empty log in an existing directory. Raises OSError."""
        return cls(disk, directory, config, recovery.create(disk, directory, config, now_ms))

    @classmethod
    def open(cls, disk: Disk, directory: str, config: TopicConfig, opening: Opening) -> Log:
        """Open the log in a directory, recovering it if necessary.

        Raises CorruptLog, OSError, KafkaError for a control batch that holds no marker.
        """
        return cls(disk, directory, config, recovery.recover(disk, directory, config, opening))

    @property
    def config(self) -> TopicConfig:
        """The topic's configuration; a new configuration takes effect when it is assigned."""
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self.segments.configure(config)
        self.refusal = self._refusal
        if config.is_tiered != (self.remote is not None):
            self.remote = RemotePart(self.start_offset) if config.is_tiered else None
            if self.remote is not None:
                self.epochs.keep()
            with suppress(OSError):  # The next start repeats it.
                self.epochs.truncate_from_start(self.start_offset)

    @property
    def first_offset(self) -> int:
        """The log start offset: of its remote part, if it has one."""
        return self.start_offset if self.remote is None else self.remote.start_offset

    @property
    def held_from(self) -> int | None:
        """From where on retention must wait for the topic's table, or for groups that have not
        read yet; None if it need not."""
        held_from = self.released_offset if self._config.waits_for_table else None
        if not self._config.wirekafka_retention_keep_unread:
            return held_from
        return self.unread_from if held_from is None else min(held_from, self.unread_from)

    @property
    def size_bytes(self) -> int:
        """The length of all log files."""
        return self.segments.size_bytes

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that readers cannot see yet, or None."""
        return self.producers.first_unstable_offset

    @property
    def refusal(self) -> str | None:
        """The reason why appends are refused, such as a full disk; None if they are accepted."""
        return self._refusal

    @refusal.setter
    def refusal(self, reason: str | None) -> None:
        reason = self._failure or reason
        if self._refusal is not None:
            self.segments.configure(self._config)
        self._refusal = reason
        if reason is not None:
            self.segments.active.always_check_roll()

    def append_as_leader(self, records: Buffer, append: Append) -> Appended:
        """Validate one batch, give it offsets and the leader epoch, and write it.

        A batch that its producer sent before is not written again: `duplicate` is set.
        Raises KafkaError as `validate` and `ProducerStates.check` do, and TakesLong.
        """
        batch = validate(records, append, self._config, self.name)
        header = batch.header
        marker: Marker | None = None
        has_producer = header.producer_id >= 0
        if has_producer:
            if header.is_control:
                marker = self._checked_marker(records, header, append)
            elif (earlier := self.producers.check(header, append)) is not None:
                return self._repeated(earlier)
        base_offset = self.end_offset
        length = header.length
        size_bytes = length + 12
        end_offset = base_offset + header.last_offset_delta + 1
        max_timestamp = header.max_timestamp
        segment = self.segments.active
        if (
            segment.file.size_bytes + size_bytes > segment.limit_bytes
            or max_timestamp > segment.roll_after_ms
            or end_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET
        ):
            shape = BatchShape(size_bytes, end_offset - 1, max_timestamp)
            segment = self._with_room(shape, base_offset, append.now_ms, marker)
        leader_epoch = append.leader_epoch
        try:
            if leader_epoch > self.epochs.recorded:
                self._assign(leader_epoch, base_offset)
            prefix = _pack_prefix(base_offset, length, leader_epoch)
            segment.append([prefix, *batch.rest], size_bytes, end_offset - 1, max_timestamp)
        except OSError as error:
            raise self._storage_error(error) from error
        self.end_offset = end_offset
        if has_producer:
            if marker is not None:
                self._completed(self.producers.update_marker(header, base_offset, marker))
            else:
                self.producers.update(header, base_offset)
        appended: Appended = _new(
            Appended, (base_offset, end_offset, batch.log_append_time_ms, self.start_offset, False)
        )
        return appended

    def append_as_follower(
        self, records: Buffer, now_ms: int, newest_epoch: int = NEWEST_EPOCH
    ) -> None:
        """Append batches fetched from a leader, unchanged, offsets and leader epochs included.

        An incomplete last batch is left out, and so are all batches from the first whose leader
        epoch is above `newest_epoch`. KafkaError, with nothing written: CORRUPT_MESSAGE, or
        OFFSET_OUT_OF_RANGE below the end.
        """
        try:
            if fetched_batches.append_usual(self, records, newest_epoch):
                return
            data = memoryview(records)
            found = fetched_batches.checked(data, self.end_offset, newest_epoch, self.name)
            for group in fetched_batches.groups(found, self._config.segment_bytes):
                self._write_received(data, group, now_ms)
        except OSError as error:
            raise self._storage_error(error) from error

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool = True
    ) -> LogSlice:
        """Read batches from the batch that holds `offset` up to `end_offset`.

        Reads at most `max_bytes`, so that the last batch may be cut off; but with `at_least_one`
        the first batch is whole, however large. Raises KafkaError: OFFSET_OUT_OF_RANGE,
        CORRUPT_MESSAGE.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise _out_of_range(self, offset)
        end_offset = min(end_offset, self.end_offset)
        if offset >= end_offset:
            if offset == self.end_offset:
                self.segments.expect_reader(offset, self.segments.active.file.size_bytes)
            return NOTHING
        try:
            limits = _new(ReadLimits, (max_bytes, end_offset, self.end_offset, at_least_one))
            return self.segments.read(offset, limits)
        except (OSError, BadBatch) as error:
            raise self._read_error(error) from error

    def batch_start(self, offset: int) -> int:
        """The base offset of the batch that holds an offset, or else the offset.

        Raises KafkaError.
        """
        try:
            segment = self.segments[self.segments.number_of(offset)]
            found = segment.find(offset)
        except (OSError, BadBatch) as error:
            raise self._read_error(error) from error
        return offset if found is None else min(found[1].base_offset, offset)

    def load(self, found: LogSlice) -> bytes:
        """The bytes that `read` has found. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return b"".join(found.buffers())
        except OSError as error:
            raise self._storage_error(error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record with that timestamp in ms or a later one. Raises KafkaError."""
        try:
            return lookup.first_at_or_after(self.segments, timestamp, self.start_offset)
        except (OSError, BadBatch) as error:
            raise self._read_error(error) from error

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp; None: there is none. Raises KafkaError."""
        try:
            return lookup.newest(self.segments)
        except (OSError, BadBatch) as error:
            raise self._read_error(error) from error

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap an offset range. Raises KafkaError."""
        indexes = self.segments.aborted_from(offset)
        try:
            return aborted_between(indexes, offset, end_offset) if indexes else []
        except (OSError, CorruptIndex) as error:
            raise self._storage_error(error) from error

    def producer_snapshot(self, offset: int) -> bytes:
        """The producer states at the start of a segment, as their file has them. Raises KafkaError.

        They are rebuilt from the records if the file is missing, as in logs of old brokers.
        """
        try:
            try:
                return self._disk.read(self._snapshots.path(offset))
            except FileNotFoundError:
                states = recovery.load_producers(self.segments, self._snapshots, offset)
                return states.encode_snapshot()
        except (OSError, BadBatch) as error:
            raise self._read_error(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and its end; (-1, -1) when unknown (KIP-320)."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def advance_start(self, offset: int) -> None:
        """Raise the log start offset; retention then deletes segments below it. Raises KafkaError.

        The remote part of the log begins there too, and its local part no earlier.
        """
        assert offset <= self.end_offset, (offset, self.end_offset)
        if self.remote is not None:
            if offset <= self.remote.start_offset:
                return
            self.remote.start_offset = offset
        elif offset <= self.start_offset:
            return
        if offset > self.start_offset:
            self._advance_local_start(offset)
        try:
            self.epochs.truncate_from_start(offset)
        except OSError as error:
            raise self._storage_error(error) from error

    def delete_old_segments(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Retire the expired segments; returns how many. Raises KafkaError.

        Nothing at or above the high watermark, by default the log end, is deleted.
        """
        horizon = self._horizon(now_ms, high_watermark)
        try:
            count = retention.expired(self.segments, self._config, horizon)
            if count == len(self.segments):
                self._roll(self.end_offset, now_ms)
            if self.remote is not None:
                readable_end = self.remote.readable_end_offset
                count = retention.expendable(self.segments, self._config, horizon, readable_end)
            self._delete_oldest(count, now_ms)
        except OSError as error:
            raise self._storage_error(error) from error
        return count

    def spare_segments(self, high_watermark: int) -> Sequence[Segment]:
        """The oldest segments, which may be deleted before they expire; the active one included.

        Of a tiered log these are the segments that are readable in remote storage.
        """
        count = retention.spare(self.segments, self._horizon(0, high_watermark))
        return list(self.segments)[:count]

    def delete_spare_segments(self, end_offset: int, now_ms: int, high_watermark: int) -> int:
        """Retire the spare segments that end at or below an offset; returns how many.

        Raises KafkaError.
        """
        horizon = self._horizon(now_ms, high_watermark)
        count = retention.spare(self.segments, horizon)
        while count and retention.end_of(self.segments, count - 1, self.end_offset) > end_offset:
            count -= 1
        try:
            if count == len(self.segments):
                self._roll(self.end_offset, now_ms)
            self._delete_oldest(count, now_ms)
        except OSError as error:
            raise self._storage_error(error) from error
        return count

    def delete_retired(self, now_ms: int) -> int | None:
        """Remove files whose delete delay has passed; returns when the next file is due.

        Raises OSError.
        """
        return self.segments.delete_retired(now_ms)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate to `offset`, where it diverges from its leader's log. Raises KafkaError.

        A log that is half truncated cannot be used: any error of the disk fails its directory.
        """
        if offset >= self.end_offset:
            self._forget_empty_epochs()
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_at(offset, now_ms)
            return
        try:
            self.segments.truncate(offset, now_ms)
            self.start_offset = min(self.start_offset, offset)
            self._end_at(offset)
            self.epochs.truncate_from_end(offset)
            self._snapshots.keep_needed(self.segments, offset)
            self.producers = recovery.load_producers(self.segments, self._snapshots, offset)
        except BadBatch as error:
            raise self._storage_error(error) from error
        except OSError as error:
            raise self._storage_error(InDoubt.because_of(error)) from error

    def truncate_fully_at(self, offset: int, now_ms: int) -> None:
        """Delete all records and continue, empty, from `offset`. Raises as `truncate_to`."""
        try:
            self.segments.retire_from_end(self.segments[:], now_ms)
            self.segments.add(offset, now_ms)
            self._end_at(offset)
            self.start_offset = offset
            if self.first_offset < offset:
                self.epochs.truncate_from_end(offset)  # Older records are in remote storage.
            else:
                self.epochs.clear()
            self._snapshots.keep_needed(self.segments, offset)
        except OSError as error:
            raise self._storage_error(InDoubt.because_of(error)) from error
        self.producers.clear(offset)

    def restart_after_remote(
        self,
        start_offset: int,
        offset: int,
        epochs: Sequence[EpochEntry],
        producers: bytes | None,
        now_ms: int,
    ) -> None:
        """Continue, empty, from `offset`: the records since `start_offset` are in remote storage.

        `epochs` are the leader epochs of the remote records, `producers` the snapshot at `offset`.
        Raises as `truncate_to`.
        """
        assert self.remote is not None, self.name
        self.remote.start_offset = start_offset
        try:
            # First the epochs: without them, the remote records would be lost to a new leader.
            self.epochs.replace(epochs)
            self.epochs.truncate_from_start(start_offset)
        except OSError as error:
            raise self._storage_error(InDoubt.because_of(error)) from error
        self.truncate_fully_at(offset, now_ms)
        try:
            if producers is not None:
                with suppress(CorruptSnapshot):  # It is then as after the loss of a snapshot.
                    self.producers.load_snapshot(producers, offset)
            self._snapshots.write(self.producers, offset)
        except OSError as error:
            raise self._storage_error(InDoubt.because_of(error)) from error

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty. Raises KafkaError."""
        if not self.segments.active.size_bytes:
            return
        try:
            self._roll(self.end_offset, now_ms)
        except OSError as error:
            raise self._storage_error(error) from error

    def begin_flush(self) -> Flush | None:
        """The flush that syncs the whole log; None when there is nothing to sync. Raises OSError.

        Run it, in any thread, and pass it to `finish_flush`, or to `withdraw_flush` if it fails.
        """
        is_closed = self.end_offset == self._closed_end
        if self.end_offset <= self.recovery_point and self._synced_names and not is_closed:
            return None
        # The segment of the last record synced: it may have been sealed since.
        first = self.segments.number_of(self.recovery_point - 1)
        flush = Flush(self._disk, self.segments[first:], self.end_offset, self._generation)
        if not self._synced_names or is_closed:
            flush.add_names(self.directory)
        if is_closed:
            # The next start may trust the last segment's side files too.
            flush.is_complete = True
            flush.add_files(self.segments.active.side_paths())
            flush.add_files([self._snapshots.path(self.end_offset)])
            self._trusted_end = self.end_offset
        self._synced_names = True
        self._closed_end = -1
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """Advance the recovery point after a flush has run without an error."""
        if flush.generation == self._generation:
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def withdraw_flush(self, flush: Flush, error: BaseException) -> None:
        """Let the next flush repeat a failed flush, or forbid flushes if data may be lost."""
        self._synced_names = False
        if flush.is_complete and flush.generation == self._generation:
            self._closed_end = flush.end_offset
            self._trusted_end = -1
        if not is_passing(error):
            if self.report is not None and isinstance(error, OSError):
                self.report(error)
            if not self.has_failed:
                self.fail(f"{self.name} could not be synced: {reason_of(error)}")

    def flush(self) -> None:
        """Sync the log in this thread.

        Raises OSError; after `SyncFailed` appends are refused: the content of the medium is
        unknown.
        """
        if (flush := self.begin_flush()) is not None:
            try:
                flush.run()
            except OSError as error:
                self.withdraw_flush(flush, error)
                raise
            self.finish_flush(flush)

    @property
    def has_failed(self) -> bool:
        """Whether `fail` was called."""
        return self._failure is not None

    def fail(self, reason: str) -> None:
        """Refuse appends until a restart, because a sync has failed."""
        self._failure = reason
        self.refusal = reason

    def close(self) -> None:
        """Complete indexes and the producer snapshot, as a clean stop requires. Raises OSError.

        The log can be read and appended to afterwards, but has to be closed again then.
        """
        if self.end_offset > 0:
            self._snapshots.ensure(self.producers, self.end_offset)
        self.segments.close()
        self._closed_end = -1 if self.end_offset == self._trusted_end else self.end_offset

    def release(self) -> None:
        """Close descriptors without writing anything; a later use opens the files again."""
        self.segments.release()

    def moved(self, directory: str) -> None:
        """Set the new path of the log's directory after it was renamed."""
        self.directory = self._snapshots.directory = directory
        self.segments.moved(directory)
        self.epochs.moved(directory)

    def _write_received(self, data: memoryview, group: list[Received], now_ms: int) -> None:
        segment = self.segments.active
        first = group[0]
        last = group[-1]
        if not fetched_batches.fit(group, segment):
            shape = fetched_batches.shape_of(group)
            # As in Kafka, from the end of this log on, although the leader may have compacted away
            # what came next: recovery takes a gap between segments for lost records.
            base_offset = self.end_offset
            if shape.last_offset - base_offset > LARGEST_RELATIVE_OFFSET:
                base_offset = first.header.base_offset
            segment = self._with_room(shape, base_offset, now_ms)
        for _, header in group:
            if header.leader_epoch > self.epochs.recorded:
                self._assign(header.leader_epoch, header.base_offset)
        segment.append_all(data[first.at : last.end], map(fetched_batches.shape_of_one, group))
        self.end_offset = last.header.end_offset
        for each in group:
            if each.header.producer_id >= 0:
                self._completed(self.producers.replay(each.header, data[each.at : each.end]))
        self.producers.end_offset = self.end_offset

    def _with_room(
        self, shape: BatchShape, base_offset: int, now_ms: int, marker: Marker | None = None
    ) -> Segment:
        """The segment to append a batch to: the active one, after a roll where that is due."""
        refusal = self._refusal
        if refusal is not None and (marker is None or refusal != OVER_BUDGET):
            self.refused_appends += 1
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, refusal)
        if shape.size_bytes > self._config.segment_bytes:
            raise _too_large(self, shape.size_bytes)
        try:
            if refusal is not None:  # A marker: `must_roll` needs the segment's own bounds.
                self.segments.configure(self._config)
            if self.segments.must_roll(shape, now_ms):
                self._roll(base_offset, now_ms)
                self.segments.must_roll(shape, now_ms)  # Sets the new segment's bounds.
        except (OSError, BadBatch) as error:
            raise self._storage_error(error) from error
        finally:
            if refusal is not None:
                self.segments.active.always_check_roll()
        return self.segments.active

    def _horizon(self, now_ms: int, high_watermark: int | None) -> Horizon:
        remote, held_from = self.remote, self.held_from
        readable_end_offset = None if remote is None else remote.readable_end_offset
        if held_from is not None and readable_end_offset is not None:
            # What is readable in remote storage can still be written to the table, and be read.
            held_from = max(held_from, readable_end_offset)
        return Horizon(
            now_ms=now_ms,
            start_offset=self.first_offset,
            high_watermark=self.end_offset if high_watermark is None else high_watermark,
            end_offset=self.end_offset,
            held_from=held_from,
            readable_end_offset=readable_end_offset,
        )

    def _delete_oldest(self, count: int, now_ms: int) -> None:
        if not count:
            return
        # First the start offset, so that nothing is read while it is deleted.
        start_offset = self.segments[count].base_offset
        if self.remote is None:
            self.advance_start(start_offset)
        elif start_offset > self.start_offset:
            self.epochs.save()
            self._advance_local_start(start_offset)
        self.segments.retire(self.segments[:count], now_ms)

    def _advance_local_start(self, offset: int) -> None:
        self.start_offset = offset
        self.producers.advance_start(offset)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        self._snapshots.write(self.producers, self.end_offset)
        self.segments.roll(base_offset, now_ms)
        self._synced_names = False

    def _forget_empty_epochs(self) -> None:
        """Remove epochs without batches at the end, where the leader may report divergence."""
        try:
            self.epochs.truncate_from_end(self.end_offset)
        except OSError as error:
            raise self._storage_error(error) from error

    def _assign(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)
        self._synced_names = False

    def _end_at(self, offset: int) -> None:
        self.end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._trusted_end = self._closed_end = -1
        self._synced_names = False
        self._generation += 1
        if self.remote is not None:
            # The copies that reach further have other records than this log will have there.
            self.remote.readable_end_offset = min(self.remote.readable_end_offset, offset)

    def _checked_marker(
        self, records: Buffer, header: BatchHeader, append: Append
    ) -> Marker | None:
        marker = decode_marker(records, header)
        if marker is not None:
            self.producers.check_marker(header, marker, append.transaction_version)
        return marker

    def _completed(self, completed: CompletedTransaction | None) -> None:
        if completed is not None and completed.is_aborted:
            self.segments.active.note_aborted(AbortedTransaction.of(completed))

    def _repeated(self, earlier: BatchSpan) -> Appended:
        # Kafka returns the time of the first attempt, whatever the topic's timestamp type.
        first_offset = earlier.first_offset
        end_offset = earlier.last_offset + 1
        return Appended(first_offset, end_offset, earlier.timestamp, self.start_offset, True)

    def _read_error(self, error: Exception) -> KafkaError:
        corrupt = KafkaError(Error.CORRUPT_MESSAGE, str(error))
        return corrupt if isinstance(error, BadBatch) else self._storage_error(error)

    def _storage_error(self, error: Exception) -> KafkaError:
        if self.report is not None and isinstance(error, OSError):
            self.report(error)
        return storage_error(error)


def _out_of_range(log: Log, offset: int) -> KafkaError:
    """A read outside of the log."""
    return KafkaError(
        Error.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {log.name}, but we only have"
        f" log segments upto {log.end_offset} (log start {log.start_offset})",
    )


def _too_large(log: Log, size_bytes: int) -> KafkaError:
    """A batch that does not fit into a segment."""
    return KafkaError(
        Error.RECORD_LIST_TOO_LARGE,
        f"Message batch size is {size_bytes} bytes in append to partition"
        f" {log.name}, which exceeds the maximum configured segment size of"
        f" {log.config.segment_bytes}.",
    )
