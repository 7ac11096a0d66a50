"""One partition in a log directory: its safe end, its batches, its transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wirekafka.codec.batch import BatchHeader
from wirekafka.errors import KafkaError
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.reader.partition_files import Listing, PartitionFiles, SegmentFile
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError
from wirekafka.reader.source import CheckedBatches, OffsetRange, SplitPoint, overlapping
from wirekafka.reader.stored_segment import (
    BatchCursor,
    first_at_or_after,
    largest_timestamp,
    split_points,
)

_NEVER = 1 << 62


class PartitionLog:
    """The batches and transactions of one partition's files. Raises ReaderError."""

    def __init__(self, name: str, files: PartitionFiles, committed_end: Callable[[], int | None]):
        """`committed_end` reads the high watermark of the log; None: it is not known."""
        self.name = name
        self.files = files
        self._committed_end = committed_end
        self._transactions: _Transactions | None = None

    def first_offset(self) -> int:
        """Where the first segment begins."""
        return self.files.listing().first_offset

    def log_end(self) -> int:
        """The end of the last whole batch, whether or not it is committed."""
        listing = self.files.settled_listing()
        if not listing.segments:
            return 0
        last = listing.segments[-1]
        end_offset = last.base_offset
        for found in self.read(OffsetRange(_tail_offset(self.files, listing), _NEVER)):
            if len(found.batches):
                end_offset = int(found.batches["end_offset"][-1])
        return end_offset

    def stable_end(self, committed_end: int) -> int:
        """The last stable offset: no transaction that is open below the end begins before it."""
        return self._transactions_up_to(committed_end).stable_end(committed_end)

    def aborted(self, offsets: OffsetRange, committed_end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a range."""
        transactions = self._transactions_up_to(committed_end)
        found = [*self.files.aborted(offsets.start_offset), *transactions.aborted]
        return overlapping(found, offsets)

    def read(self, offsets: OffsetRange) -> Iterator[CheckedBatches]:
        """All batches that overlap a range; problems are passed on with them, not raised."""
        return _Passage(self.name, self.files, offsets, self._committed_end()).run()

    def offset_for_time(self, timestamp_ms: int, offsets: OffsetRange) -> int | None:
        """The offset of the first record of a range with that timestamp or a later one."""
        while True:
            listing = self.files.settled_listing()
            for name in listing.segments:
                following = listing.after(name.base_offset)
                if following is not None and following.base_offset <= offsets.start_offset:
                    continue
                if name.base_offset >= offsets.end_offset:
                    return None
                segment = self.files.open(listing, name)
                if segment is None:
                    break  # Begin again with what is there now.
                try:
                    found = _first_in(segment, timestamp_ms, offsets, is_last=following is None)
                finally:
                    segment.close()
                if found is not None:
                    return found
            else:
                return None

    def split_points(self, offsets: OffsetRange, target_bytes: int) -> list[SplitPoint]:
        """Where to cut a range into parts of about that size."""
        while True:
            listing = self.files.settled_listing()
            points: list[SplitPoint] = []
            for name in listing.segments:
                following = listing.after(name.base_offset)
                start_offset = max(offsets.start_offset, name.base_offset)
                limit = _NEVER if following is None else following.base_offset
                part = OffsetRange(start_offset, min(offsets.end_offset, limit))
                if part.start_offset >= part.end_offset:
                    continue
                segment = self.files.open(listing, name)
                if segment is None:
                    break
                try:
                    points += split_points(segment, segment.size_bytes, part, target_bytes)
                finally:
                    segment.close()
            else:
                return _merged(points, offsets.start_offset, target_bytes)

    def _transactions_up_to(self, committed_end: int) -> _Transactions:
        if self._transactions is None:
            self._transactions = _Transactions(self, committed_end)
        self._transactions.follow(committed_end)
        return self._transactions


class _Transactions:
    """The transactions of the end of a log, from a producer snapshot on."""

    def __init__(self, log: PartitionLog, end_offset: int):
        self._log = log
        self._producers = log.files.producers_before(end_offset)
        self.aborted: list[AbortedTransaction] = []

    def follow(self, end_offset: int) -> None:
        """Read on up to an offset."""
        producers = self._producers
        first = producers.end_offset
        if first >= end_offset:
            return
        for found in self._log.read(OffsetRange(first, end_offset)):
            batches = found.batches
            of_transactions = batches.where(batches.transactional | batches.control)
            for number in range(len(of_transactions)):
                header = of_transactions.header(number)
                if first <= header.base_offset < end_offset:
                    self._replay(of_transactions.bytes_of(number), header)
            if found.problem is not None and not isinstance(found.problem, DamagedLog):
                return
        producers.end_offset = end_offset

    def _replay(self, batch: memoryview, header: BatchHeader) -> None:
        try:
            completed = self._producers.replay(header, batch)
        except KafkaError:
            return  # A control batch without a marker is reported when it is read.
        if completed is not None and completed.is_aborted:
            self.aborted.append(AbortedTransaction.of(completed))

    def stable_end(self, committed_end: int) -> int:
        """The first offset of the oldest open transaction, or else the committed end."""
        undecided = self._producers.first_undecided_offset
        return committed_end if undecided is None else min(undecided, committed_end)


class _Passage:
    """A reading of a range of one partition, from segment to segment."""

    def __init__(
        self, name: str, files: PartitionFiles, offsets: OffsetRange, committed_end: int | None
    ):
        self._name = name
        self._files = files
        self._offset, self._end_offset = offsets
        self._committed_end = committed_end
        self._finished: tuple[int, int] | None = None
        """The identity of the file that was read to its end last."""
        self._held: SegmentFile | None = None

    def run(self) -> Iterator[CheckedBatches]:
        """Read until the end of the range or of the log."""
        try:
            while self._offset < self._end_offset:
                found = self._next_segment()
                if isinstance(found, ReaderError):
                    yield CheckedBatches(problem=found)
                    if not isinstance(found, DataLost) or found.end_offset <= self._offset:
                        return
                    self._offset = min(found.end_offset, self._end_offset)
                elif found is not None:
                    yield from self._read(*found)
        except ReaderError as error:
            yield CheckedBatches(problem=error)
        finally:
            if self._held is not None:
                self._held.close()

    def _next_segment(self) -> tuple[SegmentFile, Listing] | ReaderError | None:
        """The segment that may have the offset; None to look again."""
        listing = self._files.listing()
        name = listing.at(self._offset)
        if name is None:
            listing = self._files.settled_listing()
            if not listing.segments:
                return DataLost(self._name, self._offset, self._offset, "there are no segments")
            if listing.first_offset <= self._offset:
                return None
            reason = "deleted, or never here"
            return DataLost(self._name, self._offset, listing.first_offset, reason)
        segment = self._files.open(listing, name)
        if segment is None:
            return None
        if segment.identity != self._finished:
            if self._held is not None:
                self._held.close()
            self._held = segment  # Kept open: its identity must not be given to another file.
            return segment, listing
        segment.close()
        return self._beyond_gap(listing)

    def _beyond_gap(self, listing: Listing) -> ReaderError | None:
        """Go on to the next segment, behind offsets that compaction has removed."""
        following = listing.after(self._offset)
        if following is None:
            reason = f"the log ends before offset {self._end_offset}"
            return DamagedLog(self._held.name if self._held else self._name, 0, reason)
        if self._files.settled_listing().is_like(listing):
            self._offset = following.base_offset
        return None

    def _read(self, segment: SegmentFile, listing: Listing) -> Iterator[CheckedBatches]:
        cursor = BatchCursor(segment, self._offset)
        following = listing.after(segment.base_offset)
        while self._offset < self._end_offset:
            limit = None if following is None else following.base_offset
            found = cursor.read(limit, is_sealed=following is not None)
            if found is not None:
                yield from self._passed_on(found)
                continue
            if following is not None:
                break
            # Rolled meanwhile, perhaps: then there may be more in this file, too.
            following = self._files.listing().after(segment.base_offset)
            if following is None:
                reason = f"the log ends at offset {self._offset}, before {self._end_offset}"
                problem = DamagedLog(segment.name, cursor.position, reason)
                yield CheckedBatches(problem=problem)
                if not cursor.skip():
                    self._offset = self._end_offset
        self._finished = segment.identity

    def _passed_on(self, found: CheckedBatches) -> Iterator[CheckedBatches]:
        """The batches of the range, or a problem if the last one does not fit the high watermark.

        The high watermark is between two batches: the offset of a batch across it is wrong.
        """
        batches, committed = found.batches, self._committed_end
        if not len(batches):
            yield found
            return
        if committed is not None:
            across = (batches["base_offset"] < committed) & (batches["end_offset"] > committed)
            if across.any():
                number = int(across.argmax())
                fitting = batches.where(batches["end_offset"] <= committed)
                yield CheckedBatches(fitting, found.file, found.position)
                place = found.position + int(batches["position"][number])
                reason = f"a batch across the high watermark {committed}"
                yield CheckedBatches(problem=DamagedLog(found.file, place, reason))
                self._offset = max(self._offset, committed)
                return
        yield found
        self._offset = max(self._offset, int(batches["end_offset"][-1]))


def _first_in(
    segment: SegmentFile, timestamp_ms: int, offsets: OffsetRange, *, is_last: bool
) -> int | None:
    if not is_last:
        largest = largest_timestamp(segment)
        if largest is not None and largest < timestamp_ms:
            return None
    return first_at_or_after(segment, timestamp_ms, offsets)


def _merged(points: list[SplitPoint], start_offset: int, target_bytes: int) -> list[SplitPoint]:
    """Points with small neighbours merged, the first at the start of the range."""
    merged: list[SplitPoint] = []
    for point in points:
        if merged and merged[-1].size_bytes + point.size_bytes <= target_bytes:
            merged[-1] = SplitPoint(merged[-1].offset, merged[-1].size_bytes + point.size_bytes)
        else:
            merged.append(point if merged else SplitPoint(start_offset, point.size_bytes))
    return merged or [SplitPoint(start_offset, 0)]


def _tail_offset(files: PartitionFiles, listing: Listing) -> int:
    return listing.segments[-1].base_offset
