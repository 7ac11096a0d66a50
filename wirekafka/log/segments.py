"""The segments of one log, in order: rolls, retirement, replacement, and reads across them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from zlib import crc32

from wirekafka.codec.batch import BatchHeader
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.aborted_index import AbortedIndex
from wirekafka.log.disk_errors import InDoubt
from wirekafka.log.files import Disk
from wirekafka.log.segment import BatchShape, RollTime, Segment
from wirekafka.log.slice import NOTHING, LogSlice, ReadLimits

_MOST_POSITIONS = 16
_NO_POSITIONS: dict[int, int] = {}
_base_offset = attrgetter("base_offset")


class Segments(Sequence[Segment]):
    """The segments of one log, oldest first, never empty. Raises OSError, BadBatch."""

    __slots__ = (
        "_all",
        "_config",
        "_directory",
        "_disk",
        "_open_ms",
        "_positions",
        "_retired",
        "active",
    )

    def __init__(self, disk: Disk, directory: str, config: TopicConfig, found: list[Segment]):
        self._disk = disk
        self._directory = directory
        self._config = config
        self._all = found
        self._open_ms = 0
        # Positions in the active segment of offsets that readers will request next.
        self._positions = _NO_POSITIONS
        self._retired: list[tuple[int, Segment]] | None = None
        self.active = found[-1]
        self.configure(config)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __getitem__(self, number):  # type: ignore[no-untyped-def]  # int or slice, as a list
        return self._all[number]

    @property
    def size_bytes(self) -> int:
        """The length of all log files."""
        return sum(segment.size_bytes for segment in self._all)

    def number_of(self, offset: int) -> int:
        """The number of the segment whose range includes an offset."""
        return max(bisect_right(self._all, offset, key=_base_offset) - 1, 0)

    def configure(self, config: TopicConfig) -> None:
        """Apply a changed configuration."""
        self._config = config
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms > 0:
            # Spread over the partitions, but the same at every run.
            seed = f"{self._directory.rpartition('/')[2]}/{self.active.base_offset}"
            jitter_ms = crc32(seed.encode()) % jitter_ms
        self._open_ms = config.segment_ms - jitter_ms
        if config.is_compacted:
            # What stays in the active segment cannot be compacted.
            self._open_ms = min(self._open_ms, config.max_compaction_lag_ms)
        self.active.configure(config, self._open_ms)

    def must_roll(self, shape: BatchShape, now_ms: int) -> bool:
        """Whether a batch has to go into a new segment."""
        return self.active.must_roll(shape, RollTime(now_ms, self._open_ms))

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Seal the active segment and create a new one."""
        if self.active.size_bytes:
            self.active.seal()
        else:
            # Empty, but too far behind for relative offsets.
            self.retire([self.active], now_ms)
            try:
                self.add(base_offset, now_ms)
            except OSError as error:  # Now the log has no segment to append to.
                raise InDoubt.because_of(error) from error
            return
        self.add(base_offset, now_ms)

    def add(self, base_offset: int, now_ms: int) -> None:
        """Create a new active segment."""
        config = self._config
        self._all.append(Segment.create(self._disk, self._directory, base_offset, config, now_ms))
        self._changed()

    def truncate(self, offset: int, now_ms: int) -> None:
        """Remove everything from an offset on, which must be above the first base offset."""
        kept = self.number_of(offset - 1) + 1
        self.retire_from_end(self._all[kept:], now_ms)
        self._all[-1].truncate(offset)
        self._changed()

    def retire_from_end(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Remove segments as `retire`, the last one first: a crash in between leaves no gap.

        Their names are synced, so that a power failure does not bring them back.
        """
        if segments:
            self.retire(segments[::-1], now_ms)
            self._disk.fsync_directory(self._directory)

    def retire(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Remove segments from the log, renaming their files; open reads are not affected."""
        if self._retired is None:
            self._retired = []
        for segment in segments:
            segment.retire()
            self._retired.append((now_ms + self._config.file_delete_delay_ms, segment))
            self._all.remove(segment)

    def make_way(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Rename the files of segments that `replace` is about to replace."""
        if self._retired is None:
            self._retired = []
        bases = {segment.base_offset for segment in segments}
        for entry in [each for each in self._retired if each[1].base_offset in bases]:
            entry[1].delete()  # Replaced before; its `.deleted` names are needed now.
            self._retired.remove(entry)
        for segment in segments:
            if segment is segments[0]:
                segment.make_way()
            else:
                segment.retire()
            self._retired.append((now_ms + self._config.file_delete_delay_ms, segment))

    def replace(self, segments: Sequence[Segment], by: Segment) -> None:
        """Replace neighbouring segments, none of them the active one, by one segment."""
        number = self._all.index(segments[0])
        self._all[number : number + len(segments)] = [by]

    def delete_retired(self, now_ms: int) -> int | None:
        """Remove files whose delete delay has passed; returns when the next is due, or None."""
        retired = self._retired
        if not retired:
            return None
        while retired and retired[0][0] <= now_ms:
            retired[0][1].delete()
            del retired[0]
        return retired[0][0] if retired else None

    def read(self, offset: int, limits: ReadLimits) -> LogSlice:
        """A slice that begins with the batch that holds an offset."""
        segment, position, first = self._locate(offset)
        size_bytes = self._bound(segment, limits) - position
        max_bytes = limits.max_bytes
        if size_bytes > max_bytes:
            if first is None:
                _, first = next(segment.headers(position))
            if limits.at_least_one:
                max_bytes = max(max_bytes, first.size_bytes)
            elif max_bytes < first.size_bytes:
                return NOTHING  # As Kafka: part of one batch is of no use.
            size_bytes = min(size_bytes, max_bytes)
        return LogSlice(segment.file, position, size_bytes) if size_bytes > 0 else NOTHING

    def aborted_from(self, offset: int) -> list[AbortedIndex]:
        """The indexes of aborted transactions of the segments from an offset on."""
        segments = self._all[self.number_of(offset) :]
        return [segment.aborted for segment in segments if segment.aborted is not None]

    def expect_reader(self, offset: int, position: int) -> None:
        """Remember the position of an offset in the active segment that will be read next."""
        positions = self._positions
        if positions is _NO_POSITIONS or len(positions) >= _MOST_POSITIONS:
            self._positions = {offset: position}
        else:
            positions[offset] = position

    def close(self) -> None:
        """Complete all files and close the descriptors; a later use opens them again."""
        for segment in self._all:
            segment.seal()
            segment.close()

    def release(self) -> None:
        """Close descriptors without writing anything."""
        for segment in self._all:
            segment.release()

    def moved(self, directory: str) -> None:
        """Set the new path of the log's directory after it was renamed."""
        self._directory = directory
        for segment in self._all:
            segment.moved(directory)

    def _changed(self) -> None:
        self._positions = _NO_POSITIONS
        self.active = self._all[-1]
        self.configure(self._config)

    def _locate(self, offset: int) -> tuple[Segment, int, BatchHeader | None]:
        """The segment and position of the first batch that ends after an offset.

        Its header, too, if it had to be read.
        """
        if offset >= self.active.base_offset:
            position = self._positions.get(offset, -1)
            if position >= 0:
                return self.active, position, None
        for number in range(self.number_of(offset), len(self._all)):
            found = self._all[number].find(offset)
            if found is not None:
                return self._all[number], *found
        return self.active, self.active.size_bytes, None

    def _bound(self, segment: Segment, limits: ReadLimits) -> int:
        """The position in a segment at which a read has to stop."""
        end_offset = limits.end_offset
        active = self.active
        size_bytes = segment.file.size_bytes
        if segment is active:
            if end_offset == limits.log_end_offset:
                self.expect_reader(end_offset, size_bytes)
                return size_bytes
            position = self._positions.get(end_offset, -1)
            if position >= 0:
                return position
        elif end_offset >= active.base_offset:
            return size_bytes
        found = segment.find(end_offset)
        if found is None:
            return size_bytes
        if segment is active:
            self.expect_reader(end_offset, found[0])
        return found[0]
