"""A segment in a file or an object: its batches are checked, found by offset and by time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple, Protocol

import numpy as np

from wirekafka.codec.batch import HEADER_BYTES, MAGIC, MAGIC_AT, Buffer, read_header
from wirekafka.log.index import OffsetIndex, TimeIndex
from wirekafka.reader.problems import DamagedLog
from wirekafka.reader.source import CheckedBatches, OffsetRange, SplitPoint
from wirekafka.tables.rows import NO_LIMIT, Rows
from wirekafka.tables.scan import Batches, DamagedBatch, scan

WINDOW_BYTES = 4 << 20
_LARGE_BYTES = 16 << 20
_NO_HEADER = bytes(HEADER_BYTES)


class StoredSegment(Protocol):
    """The bytes of a segment and of its indexes. Raises ReaderError."""

    name: str
    base_offset: int

    def pread(self, size_bytes: int, position: int) -> Buffer:
        """Up to `size_bytes` from `position`; fewer at the end."""

    def offset_index(self) -> Buffer:
        """The entries of the offset index, as they are in its file; empty if there is none."""

    def time_index(self) -> Buffer:
        """The entries of the time index, as they are in its file; empty if there is none."""


class Start(NamedTuple):
    """Where a scan begins: a batch boundary, and the least offset that the batch there may have."""

    position: int
    least_offset: int


def start_before(segment: StoredSegment, offset: int) -> Start:
    """Where to begin a scan for the batch with an offset; the beginning if the index is useless."""
    entries = _offset_entries(segment)
    number = bisect_right(entries, offset - segment.base_offset, key=_first) - 1
    found = _verified(segment, *entries[number]) if number >= 0 else None
    return found or Start(0, segment.base_offset)


def first_at_or_after(
    segment: StoredSegment, timestamp_ms: int, offsets: OffsetRange
) -> int | None:
    """The offset of the first record of a range with that timestamp or a later one."""
    entries = _time_entries(segment)
    number = bisect_right(entries, timestamp_ms, key=_first) - 1
    from_offset = segment.base_offset + (entries[number][1] if number >= 0 else 0)
    cursor = BatchCursor(segment, max(from_offset, offsets.start_offset))
    while (found := cursor.read(None, is_sealed=False)) is not None:
        if found.problem is not None:
            raise found.problem
        batches = found.batches
        late = batches.where(batches["max_timestamp"] >= timestamp_ms)
        for number in range(len(late)):
            offset = _offset_in(found, late.where(np.array([number])), timestamp_ms, offsets)
            if offset is not None:
                return offset
        if batches["end_offset"][-1] >= offsets.end_offset:
            return None
    return None


def largest_timestamp(segment: StoredSegment) -> int | None:
    """The largest timestamp by the index of a segment that is not appended to; None: unknown."""
    entries = _time_entries(segment)
    return entries[-1][0] if entries else None


def split_points(
    segment: StoredSegment, size_bytes: int, offsets: OffsetRange, target_bytes: int
) -> list[SplitPoint]:
    """Points at index entries, from the start of a range up to its end or the segment's end."""
    entries = _offset_entries(segment)
    base = segment.base_offset
    first = bisect_right(entries, offsets.start_offset - base, key=_first) - 1
    position = entries[first][1] if first >= 0 else 0
    start_offset = offsets.start_offset
    points = []
    for number in range(first + 1, len(entries)):
        relative, entry_position = entries[number]
        following = base + relative + 1
        if following >= offsets.end_offset:
            size_bytes = min(entry_position, size_bytes)
            break
        if following > start_offset and entry_position - position >= target_bytes:
            points.append(SplitPoint(start_offset, entry_position - position))
            start_offset, position = following, entry_position
    points.append(SplitPoint(start_offset, max(size_bytes - position, 0)))
    return points


class BatchCursor:
    """Reads a segment from the batch with an offset on, and checks what it reads.

    Checksums do not cover the offset of a batch. A batch that does not follow the batch before it
    directly, as after compaction, is passed on only once the batch behind it has been seen: its
    offsets must lie between the offsets of its neighbours.
    """

    def __init__(self, segment: StoredSegment, offset: int):
        self._segment = segment
        self.position, self._least_offset = start_before(segment, offset)
        self._window_bytes = WINDOW_BYTES
        self._is_broken = False

    def read(self, most_offset: int | None, *, is_sealed: bool) -> CheckedBatches | None:
        """The next batches, or a problem; None at the end, which an open segment may move.

        `most_offset` is the base offset of the following segment, which no batch may exceed.
        """
        while not self._is_broken:
            window = memoryview(self._segment.pread(self._window_bytes, self.position))
            is_end = len(window) < self._window_bytes
            try:
                found = scan(window)
            except DamagedBatch as damage:
                if not is_sealed and window[:HEADER_BYTES] == _NO_HEADER:
                    return None  # Space that is reserved for batches to come.
                return self._damaged(damage.reason, damage.resume_at)
            if len(found):
                checked = self._in_order(found, most_offset, is_end=is_end)
                if checked is not None:
                    return checked
            elif is_end:
                is_rest = is_sealed and len(window) > 0
                return self._damaged("incomplete batch", None) if is_rest else None
            elif found.wanted_bytes > _LARGE_BYTES and not self._ends_at(found.wanted_bytes):
                return self._damaged("a batch whose end is nowhere", None)
            self._window_bytes = max(2 * self._window_bytes, found.wanted_bytes + HEADER_BYTES)
        return None

    def skip(self) -> bool:
        """Go on at the next position in the index; False if there is none."""
        entries = _offset_entries(self._segment)
        for number in range(bisect_right(entries, self.position, key=_second), len(entries)):
            found = _verified(self._segment, *entries[number])
            if found is not None and found.least_offset >= self._least_offset:
                self.position, self._least_offset = found
                return True
        self._is_broken = True
        return False

    def _in_order(
        self, found: Batches, most_offset: int | None, *, is_end: bool
    ) -> CheckedBatches | None:
        """The batches whose offsets are right, or the problem; None if a window is too small."""
        bases, ends = found["base_offset"], found["end_offset"]
        before = np.concatenate(([self._least_offset], ends[:-1]))
        wrong = (bases < before) | (ends <= bases)
        if most_offset is not None:
            wrong |= ends > most_offset
        if wrong.any():
            number = int(wrong.argmax())
            # Where a gap is in front, either of two batches may have the wrong offset.
            first = number - 1 if number and bases[number - 1] > before[number - 1] else number
            if first:
                return self._advanced(found.where(np.arange(first)))
            reason = f"offset {bases[number]} is out of order"
            return self._damaged(reason, _stop(found, number))
        last = len(found) - 1
        is_followed = not is_end and (found.wanted_bytes > 0 or found.end == len(found.data))
        if bases[last] > before[last] and is_followed:
            return self._advanced(found.where(np.arange(last))) if last else None
        return self._advanced(found)

    def _advanced(self, found: Batches) -> CheckedBatches:
        checked = CheckedBatches(found, self._segment.name, self.position)
        last = len(found) - 1
        self._least_offset = int(found["end_offset"][last])
        self.position += _stop(found, last)
        self._window_bytes = WINDOW_BYTES
        return checked

    def _damaged(self, reason: str, resume_at: int | None) -> CheckedBatches:
        """The problem at the present position; goes to the place from which the rest is read."""
        problem = DamagedLog(self._segment.name, self.position, reason)
        if resume_at is None:
            self.skip()
        else:
            self.position += resume_at
        return CheckedBatches(problem=problem)

    def _ends_at(self, stop: int) -> bool:
        """Whether a large batch ends there: the file does, or another batch begins.

        Checksums do not cover the length of a batch either.
        """
        position = self.position + stop
        head = self._segment.pread(HEADER_BYTES, position)
        if not head:
            return bool(self._segment.pread(1, position - 1))
        return head == _NO_HEADER or (len(head) > MAGIC_AT and 0 <= head[MAGIC_AT] <= MAGIC)


class _Entries(Sequence[tuple[int, int]]):
    """The entries of an index, without the zeros that Kafka reserves in the index of its newest
    segment."""

    def __init__(self, data: Buffer, struct: Struct):
        self._data = data
        self._unpack, self._size = struct.unpack_from, struct.size
        filled = len(bytes(data).rstrip(b"\0"))
        self._count = min(-(-filled // struct.size), len(data) // struct.size)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        return self._unpack(self._data, range(self._count)[number] * self._size)


def _offset_entries(segment: StoredSegment) -> _Entries:
    return _Entries(segment.offset_index(), OffsetIndex.struct)


def _time_entries(segment: StoredSegment) -> _Entries:
    return _Entries(segment.time_index(), TimeIndex.struct)


def _verified(segment: StoredSegment, relative: int, position: int) -> Start | None:
    """The place of an index entry, if a batch begins there whose last offset the entry has."""
    head = segment.pread(HEADER_BYTES, position) if position >= 0 else b""
    if len(head) < HEADER_BYTES:
        return None
    header = read_header(head)
    is_right = header.magic == MAGIC and header.end_offset - 1 == segment.base_offset + relative
    return Start(position, header.base_offset) if is_right else None


def _offset_in(
    found: CheckedBatches, batch: Batches, timestamp_ms: int, offsets: OffsetRange
) -> int | None:
    """The offset of the first record of one batch that is in the range, and not older."""
    rows = Rows("", 0, columns=("offset", "timestamp"), limit_rows=NO_LIMIT)
    try:
        rows.add(batch, *offsets)
    except DamagedBatch as damage:
        raise DamagedLog(found.file, found.position + damage.position, damage.reason) from None
    taken = rows.take()
    times = taken.column("timestamp").cast("int64").to_numpy(zero_copy_only=False)
    (late,) = (times >= timestamp_ms * 1000).nonzero()
    return int(taken.column("offset")[int(late[0])].as_py()) if len(late) else None


def _stop(found: Batches, number: int) -> int:
    """Where in the window a batch ends."""
    return int(found["position"][number] + found["size_bytes"][number])


def _first(entry: tuple[int, int]) -> int:
    return entry[0]


def _second(entry: tuple[int, int]) -> int:
    return entry[1]
