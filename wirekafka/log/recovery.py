"""Opens a log's directory: decides which files are trusted, scanned, rebuilt or refused."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NoReturn

from wirekafka.codec.batch import BatchHeader, Buffer
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log import scan
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.crash_cleanup import clean_up_after_crash
from wirekafka.log.epochs import FILE_NAME as EPOCHS_NAME
from wirekafka.log.epochs import LeaderEpochs, MalformedEpochs
from wirekafka.log.files import Disk
from wirekafka.log.index import ABSENT, OffsetIndex, TimeEntry, TimeIndex
from wirekafka.log.producer_snapshots import ProducerSnapshots, offsets_in
from wirekafka.log.producers import CompletedTransaction, ProducerStates
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET, BadBatch, Passage
from wirekafka.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    Sizes,
    file_name,
)

logger = logging.getLogger(__name__)

FUTURE_SUFFIX = "-future"
"""Ends the name of a log that is to replace one in another directory: `a-0.<32 digits>-future`."""
_FUTURE_SUFFIX_LENGTH = 1 + 32 + len(FUTURE_SUFFIX)
_LOGGED_FROM_BYTES = 64 << 20
"""The scan of a segment from this size on, which takes tenths of a second, is logged."""


class CorruptLog(Exception):
    """A log with an invalid batch before valid ones: it is neither opened nor truncated."""

    def __init__(self, path: str, bad: BadBatch, follower: str):
        super().__init__(f"{path}: {bad}, but {follower}; the partition stays offline")
        self.path = path
        self.position = bad.position
        self.reason = bad.reason


@dataclass(slots=True, kw_only=True)
class Opening:
    """How the last stop left a log: clean or not, and the offsets in its checkpoints.

    After a clean stop the files are trusted. Otherwise the segment that holds the recovery point
    and all later segments are scanned, and checksums verified from the recovery point on.
    """

    is_clean: bool
    is_synced: bool = True
    """Whether the trusted files are on the medium too; not if they have just been recovered."""
    recovery_point: int = 0
    start_offset: int = 0
    now_ms: int = 0
    scanning: Callable[[int], None] | None = field(default=None, compare=False, repr=False)
    """Called with the number of segments that are still to be scanned, down to 0."""


@dataclass(slots=True, kw_only=True)
class Parts:
    """The components of a log that was opened or created."""

    segments: list[Segment]
    producers: ProducerStates
    epochs: LeaderEpochs
    snapshots: ProducerSnapshots
    start_offset: int
    end_offset: int
    recovery_point: int
    trusted_end: int
    """The end offset if all files beside the segments are synced up to it, else -1."""
    remote_start_offset: int = 0
    """Where a tiered log begins, in remote storage or here."""


def create(disk: Disk, directory: str, config: TopicConfig, now_ms: int) -> Parts:
    """Create a log in an existing directory. Raises OSError."""
    return Parts(
        segments=[Segment.create(disk, directory, 0, config, now_ms)],
        producers=ProducerStates(log_name(directory)),
        epochs=LeaderEpochs(disk, f"{directory}/{EPOCHS_NAME}"),
        snapshots=ProducerSnapshots(disk, directory),
        start_offset=0,
        end_offset=0,
        recovery_point=0,
        trusted_end=-1,
    )


def recover(disk: Disk, directory: str, config: TopicConfig, opening: Opening) -> Parts:
    """Open a log and repair its files where necessary.

    Raises CorruptLog, OSError, KafkaError for a control batch that holds no marker.
    """
    return _Recovery(disk, directory, config, opening).run()


def load_producers(
    segments: Sequence[Segment], snapshots: ProducerSnapshots, end_offset: int
) -> ProducerStates:
    """The producer states at an offset: the newest snapshot below it, and a replay of headers.

    Raises BadBatch, OSError.
    """
    first_offset = segments[0].base_offset
    producers = ProducerStates(log_name(snapshots.directory), first_offset)
    snapshots.load(producers, first_offset, end_offset)
    _replay(segments, producers, end_offset)
    return producers


class _Recovery:
    """The opening of one log."""

    def __init__(self, disk: Disk, directory: str, config: TopicConfig, opening: Opening):
        self._disk = disk
        self._directory = directory
        self._config = config
        self._opening = opening
        self._files = clean_up_after_crash(disk, directory)
        self._snapshots = ProducerSnapshots(disk, directory, self._files)
        self._segments = self._found_segments()
        path = f"{directory}/{EPOCHS_NAME}"
        is_there = EPOCHS_NAME in self._files
        self._epochs = _load_epochs(disk, path) if is_there else LeaderEpochs(disk, path)
        self._found_epochs = False
        self._producers = ProducerStates(log_name(directory))
        self._end_offset = 0
        self._is_trusted = False

    def run(self) -> Parts:
        opening, segments = self._opening, self._segments
        suspects = self._suspects()
        trusted = min(suspects, default=len(segments))
        is_synced = opening.is_clean and opening.is_synced
        self._is_trusted = is_synced and not suspects and bool(segments)
        if trusted < len(segments):
            self._end_offset = segments[trusted].base_offset
        elif segments:
            self._end_offset = _tail_end(segments[-1])
        else:
            self._end_offset = opening.start_offset
        if segments:
            self._producers = load_producers(segments, self._snapshots, self._end_offset)
        if not opening.is_clean:
            self._find_older_epochs(segments[:trusted])
        left = len(suspects)
        for number in range(trusted, len(segments)):
            if number >= len(segments):
                break  # The segments after a torn tail were dropped.
            if number in suspects:
                self._report(left)
                self._scan(number)
                left -= 1
            else:
                self._end_offset = _tail_end(segments[number])
                _replay([segments[number]], self._producers, self._end_offset)
        if suspects:
            self._report(0)
        return self._finished()

    def _report(self, left: int) -> None:
        if self._opening.scanning is not None:
            self._opening.scanning(left)

    def _finished(self) -> Parts:
        segments, opening = self._segments, self._opening
        start_offset = max(opening.start_offset, segments[0].base_offset if segments else 0)
        if self._end_offset < start_offset:
            # All remaining records lie below the start: the log continues from there, empty.
            for segment in segments:
                segment.retire()
                segment.delete()
            segments.clear()
            self._end_offset = start_offset
        if not segments:
            segment = Segment.create(
                self._disk, self._directory, start_offset, self._config, opening.now_ms
            )
            segments.append(segment)
            self._producers.clear(start_offset)
        self._epochs.forget_from(self._end_offset)
        # Remote segments are read by the epochs of their records.
        first_offset = opening.start_offset if self._config.is_tiered else start_offset
        self._epochs.truncate_from_start(first_offset)
        if self._found_epochs:
            self._epochs.save()
        self._snapshots.keep_needed(segments, self._end_offset)
        is_synced = opening.is_clean and opening.is_synced
        recovery_point = self._end_offset if is_synced else opening.recovery_point
        return Parts(
            segments=segments,
            producers=self._producers,
            epochs=self._epochs,
            snapshots=self._snapshots,
            start_offset=start_offset,
            end_offset=self._end_offset,
            recovery_point=min(recovery_point, self._end_offset),
            trusted_end=self._end_offset if self._is_trusted else -1,
            remote_start_offset=opening.start_offset,
        )

    def _found_segments(self) -> list[Segment]:
        def size(offset: int, suffix: str, absent: int = 0) -> int:
            entry = self._files.get(file_name(offset, suffix))
            return absent if entry is None else entry.size_bytes

        segments = []
        for offset in sorted(offsets_in(self._files, LOG_SUFFIX)):
            sizes = Sizes(
                size(offset, LOG_SUFFIX),
                size(offset, INDEX_SUFFIX, ABSENT),
                size(offset, TIME_INDEX_SUFFIX, ABSENT),
                size(offset, TRANSACTION_INDEX_SUFFIX),
            )
            segment = Segment(self._disk, self._directory, offset, sizes)
            segment.created_ms = self._files[file_name(offset, LOG_SUFFIX)].modified_ms
            segments.append(segment)
        return segments

    def _suspects(self) -> set[int]:
        """The numbers of the segments that have to be scanned."""
        segments = self._segments
        suspects = {n for n, segment in enumerate(segments) if not self._is_indexed(segment)}
        if not segments:
            return suspects
        if not self._opening.is_clean:
            # The segment of the last record synced may have been sealed afterwards, and the
            # indexes of a sealed segment are synced with the next flush only.
            last_synced = self._opening.recovery_point - 1
            after = bisect_right(segments, last_synced, key=_base_offset)
            suspects.update(range(max(after - 1, 0), len(segments)))
        elif len(segments) - 1 not in suspects:
            try:
                _tail_end(segments[-1])
            except BadBatch:
                suspects.add(len(segments) - 1)
        return suspects

    def _is_indexed(self, segment: Segment) -> bool:
        if segment is self._segments[-1] and _is_blank(segment):
            return True
        index = self._files.get(file_name(segment.base_offset, INDEX_SUFFIX))
        time_index = self._files.get(file_name(segment.base_offset, TIME_INDEX_SUFFIX))
        return (
            index is not None
            and time_index is not None
            and index.size_bytes % OffsetIndex.struct.size == 0
            and time_index.size_bytes % TimeIndex.struct.size == 0
            and segment.last_indexed() <= segment.size_bytes
        )

    def _find_older_epochs(self, trusted: Sequence[Segment]) -> None:
        """Find epochs below the oldest in the checkpoint file, which a power cut may have emptied.

        Only trusted segments are read here; the scan finds the epochs of all other segments.
        """
        if not trusted:
            return
        known = self._epochs.entries
        first_known = known[0].start_offset if known else self._end_offset
        if first_known <= max(trusted[0].base_offset, self._opening.start_offset):
            return
        epochs = LeaderEpochs(self._disk, f"{self._directory}/{EPOCHS_NAME}")
        for segment in trusted:
            for _, header in segment.headers():
                if header.base_offset >= first_known:
                    break
                if header.leader_epoch > epochs.latest:
                    epochs.begin(header.leader_epoch, header.base_offset)
        for epoch, start_offset in known:
            epochs.begin(epoch, start_offset)
        self._epochs = epochs
        self._found_epochs = True

    def _scan(self, number: int) -> None:
        """Scan a segment, rebuild the files beside it, and truncate a torn tail."""
        segment = self._segments[number]
        if segment.base_offset > self._end_offset and not self._config.is_compacted:
            # Not compacted away, as the topic is not compacted: a power cut lost them.
            before = self._segments[number - 1]
            reason = f"records from {self._end_offset} on are missing"
            self._refuse_unless_torn(number - 1, BadBatch(before.size_bytes, reason))
            self._drop_after(number - 1)
            return
        if segment.size_bytes >= _LOGGED_FROM_BYTES:
            logger.info(
                "Scanning %s, %d MiB: segment %d of %d",
                segment.path(LOG_SUFFIX),
                segment.size_bytes >> 20,
                number + 1,
                len(self._segments),
            )
        is_blank = _is_blank(segment)
        if not is_blank:
            segment.reset_indexes(self._config)
        if number:
            self._snapshots.write(self._producers, segment.base_offset)
        self._end_offset = max(self._end_offset, segment.base_offset)
        try:
            self._note_all(segment)
        except BadBatch as bad:
            self._refuse_unless_torn(number, bad)
            segment.file.truncate(bad.position)
            self._drop_after(number)
        if not is_blank:
            segment.seal()

    def _note_all(self, segment: Segment) -> None:
        """Index a segment's batches up to the first invalid one. Raises BadBatch, CorruptLog."""
        opening = self._opening
        interval_bytes = self._config.index_interval_bytes
        passage = Passage(
            end_offset=self._end_offset,
            due_position=interval_bytes,
            verified_from=_NEVER if opening.is_clean else opening.recovery_point,
            replay=lambda header: self._producers.replay(header, b""),
        )
        try:
            for position, header, batch in scan.notable(segment.file, passage):
                self._note(segment, passage, position, header, batch)
                if position > passage.due_position:
                    last_offset = header.end_offset - 1
                    segment.note_entry(last_offset, position, _largest(passage))
                    passage.due_position = position + interval_bytes
        finally:
            self._end_offset = self._producers.end_offset = passage.end_offset
            since_bytes = passage.position + interval_bytes - passage.due_position
            segment.note_end(_largest(passage), since_bytes)
        if passage.end_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET + 1:
            self._refuse_far_off(segment)

    def _note(
        self, segment: Segment, passage: Passage, position: int, header: BatchHeader, batch: Buffer
    ) -> None:
        if header.base_offset < passage.end_offset:
            self._refuse(segment, position, f"offset {header.base_offset} comes too late")
        if header.end_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET + 1:
            self._refuse_far_off(segment)
        epoch = header.leader_epoch
        if epoch != passage.leader_epoch:
            passage.leader_epoch = epoch
            if epoch > self._epochs.latest:
                self._epochs.begin(epoch, header.base_offset)
                self._found_epochs = True
        if header.producer_id >= 0 and (header.is_transactional or header.is_control):
            _note_aborted(segment, self._producers.replay(header, batch))

    def _refuse_far_off(self, segment: Segment) -> None:
        for position, header in segment.headers():
            if header.end_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET + 1:
                self._refuse(segment, position, f"offset {header.base_offset} is too far off")

    def _refuse(self, segment: Segment, position: int, reason: str) -> NoReturn:
        # Offsets are not under the checksum, but no torn write leaves a whole batch with a bad one.
        path = segment.path(LOG_SUFFIX)
        raise CorruptLog(path, BadBatch(position, reason), "the batch is whole")

    def _refuse_unless_torn(self, number: int, bad: BadBatch) -> None:
        for later in range(number, len(self._segments)):
            segment = self._segments[later]
            from_position = bad.position + 1 if later == number else 0
            found = scan.next_valid(segment.file, from_position, self._end_offset)
            if found is not None:
                position, header = found
                where = f"a valid batch with offset {header.base_offset} follows at {position}"
                path = segment.path(LOG_SUFFIX)
                follower = where if later == number else f"{where} in {path}"
                raise CorruptLog(self._segments[number].path(LOG_SUFFIX), bad, follower)

    def _drop_after(self, number: int) -> None:
        for segment in self._segments[number + 1 :]:
            segment.retire()
            segment.delete()
        del self._segments[number + 1 :]


def _load_epochs(disk: Disk, path: str) -> LeaderEpochs:
    try:
        return LeaderEpochs.load(disk, path)
    except MalformedEpochs:
        return LeaderEpochs(disk, path)


def _is_blank(segment: Segment) -> bool:
    """Whether nothing was ever appended to a segment, so that it may lack its indexes."""
    return not (
        segment.size_bytes
        or segment.index.size_bytes
        or segment.time_index.size_bytes
        or segment.aborted is not None
    )


def _tail_end(segment: Segment) -> int:
    """The end offset of a trusted segment: a scan from its last index entry. Raises BadBatch."""
    end_offset = segment.base_offset
    for _, header in segment.headers(segment.last_indexed()):
        end_offset = header.end_offset
    return end_offset


def _replay(segments: Sequence[Segment], producers: ProducerStates, end_offset: int) -> None:
    """Apply the headers from the producers' end offset up to `end_offset` to the producers."""
    for number, segment in enumerate(segments):
        from_offset = producers.end_offset
        # After compaction there may be a gap before the next segment, which may lie above the end.
        if from_offset >= end_offset or segment.base_offset >= end_offset:
            return
        if number + 1 < len(segments) and segments[number + 1].base_offset <= from_offset:
            continue
        for position, header in segment.headers(segment.index.position_before(from_offset)):
            if header.base_offset >= end_offset:
                break
            if header.base_offset >= from_offset:
                batch = _marker_bytes(segment, position, header)
                _note_aborted(segment, producers.replay(header, batch))


def _marker_bytes(segment: Segment, position: int, header: BatchHeader) -> Buffer:
    if header.is_control and header.has_producer_id:
        return segment.file.pread(header.size_bytes, position)
    return b""


def _note_aborted(segment: Segment, completed: CompletedTransaction | None) -> None:
    if completed is None or not completed.is_aborted:
        return
    known = segment.aborted.entries if segment.aborted is not None else []
    if not known or known[-1].last_offset < completed.last_offset:
        segment.note_aborted(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                completed.last_stable_offset,
            )
        )


def log_name(directory: str) -> str:
    """`<topic>-<partition>`, also for the directory of a future log."""
    name = directory.rpartition("/")[2]
    return name[:-_FUTURE_SUFFIX_LENGTH] if name.endswith(FUTURE_SUFFIX) else name


def _largest(passage: Passage) -> TimeEntry:
    return TimeEntry(passage.largest_timestamp, passage.largest_offset)


_base_offset = attrgetter("base_offset")
_NEVER = 1 << 63
