"""Reads records of remote segments: by offset, by timestamp, and their aborted transactions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from wirekafka.codec.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from wirekafka.codec.record import Record, decode_records
from wirekafka.errors import KafkaError
from wirekafka.log.aborted_index import AbortedTransaction, decode_entries
from wirekafka.log.epochs import EpochEntry, MalformedEpochs, decode_epochs
from wirekafka.log.index import OffsetIndex, TimeIndex
from wirekafka.log.lookup import TimestampOffset
from wirekafka.tiered.byte_cache import ByteCache
from wirekafka.tiered.index_files import IndexFiles
from wirekafka.tiered.layout import IndexKind, Layout
from wirekafka.tiered.remote_segment import RemoteSegment
from wirekafka.tiered.store import ObjectMissing, StoreError

CHUNK_BYTES = 4 << 20
"""Read from the store at once; what is not needed yet is what a consumer needs next."""
_SCAN_BYTES = 64 << 10


class FoundBatches(NamedTuple):
    """Batches of a segment, the last of which may be cut off."""

    records: Buffer
    end_offset: int
    """After the last batch that is complete."""
    next_position: int
    """Where a consumer continues."""


class AbortedRange(NamedTuple):
    """Aborted transactions that overlap a range, and whether later segments may have more."""

    found: list[AbortedTransaction]
    is_complete: bool


class RemoteReader:
    """Reads through caches of indexes and of chunks. May be used in any thread.

    Raises StoreError, also for what the store has damaged.
    """

    def __init__(
        self, layout: Layout, *, index_bytes: int, chunk_bytes: int, files: IndexFiles | None = None
    ):
        """Limits of the two caches, in bytes, and where indexes are kept beside the memory."""
        self._layout = layout
        self._files = files
        self._indexes = ByteCache[tuple[bytes, IndexKind]](index_bytes)
        self._chunks = ByteCache[tuple[bytes, int]](chunk_bytes)

    def read(
        self, segment: RemoteSegment, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> FoundBatches:
        """The batches from the batch with `offset` on, limited as `Log.read` is."""
        found = self._find(segment, offset)
        if found is None:
            return FoundBatches(b"", offset, segment.size_bytes)
        position, first = found
        size_bytes = max_bytes
        if max_bytes < first.size_bytes:
            if not at_least_one:
                return FoundBatches(b"", offset, position)
            size_bytes = first.size_bytes
        end = min(position + size_bytes, segment.size_bytes)
        records = self._bytes(segment, position, end)
        end_offset = first.end_offset
        for header in _headers(records):
            end_offset = header.end_offset
        return FoundBatches(records, end_offset, end)

    def needs_ahead(self, segment: RemoteSegment, position: int) -> bool:
        """Whether the chunk after the one with a position should be read now."""
        following = position // CHUNK_BYTES + 1
        return following * CHUNK_BYTES < segment.size_bytes and (
            (segment.id, following) not in self._chunks
        )

    def read_ahead(self, segment: RemoteSegment, position: int) -> None:
        """Read the chunk after the one with a position into the cache."""
        self._chunk(segment, position // CHUNK_BYTES + 1)

    def first_at_or_after(
        self, segment: RemoteSegment, timestamp: int, start_offset: int
    ) -> TimestampOffset | None:
        """The first record with a timestamp in ms or a later one, from an offset on."""
        if segment.max_timestamp_ms < timestamp:
            return None
        times = self._index(segment, IndexKind.TIMESTAMP)
        entry_bytes = TimeIndex.struct.size
        number = _floor(times, TimeIndex.struct.unpack_from, entry_bytes, timestamp)
        from_offset = segment.start_offset
        if number >= 0:
            # The record is after the batch whose timestamp is the largest below it.
            relative: int = TimeIndex.struct.unpack_from(times, number * entry_bytes)[1]
            from_offset += relative
        found = self._find(segment, max(from_offset, start_offset))
        position = found[0] if found is not None else segment.size_bytes
        for at, header in self._batches(segment, position):
            if header.max_timestamp >= timestamp and header.end_offset > start_offset:
                for record in _records(self._bytes(segment, at, at + header.size_bytes)):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None

    def aborted(
        self, segments: Iterable[RemoteSegment], start_offset: int, end_offset: int
    ) -> AbortedRange:
        """The aborted transactions that overlap an offset range.

        `segments` are the one with `start_offset` and all that follow it: the marker of a
        transaction may be far behind its records.
        """
        found = []
        for segment in segments:
            if segment.has_no_transactions:
                continue
            entries = self.transactions(segment)
            for at in range(bisect_left(entries, start_offset, key=_marker_of), len(entries)):
                aborted = entries[at]
                if aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return AbortedRange(found, True)
        return AbortedRange(found, False)

    def transactions(self, segment: RemoteSegment) -> list[AbortedTransaction]:
        """All aborted transactions whose markers are in a segment."""
        if segment.has_no_transactions:
            return []
        try:
            return decode_entries(self._index(segment, IndexKind.TRANSACTION))
        except ValueError as error:
            raise StoreError(f"a transaction index is damaged: {error}") from error

    def epochs(self, segment: RemoteSegment) -> list[EpochEntry]:
        """The leader epochs of a log up to the end of a segment."""
        try:
            return decode_epochs(bytes(self._layout.index(segment, IndexKind.LEADER_EPOCH)))
        except MalformedEpochs as error:
            raise StoreError(f"an index of leader epochs is damaged: {error}") from error

    def producers(self, segment: RemoteSegment) -> bytes | None:
        """The snapshot of a log's producers at the end of a segment; None if there is none."""
        try:
            return bytes(self._layout.index(segment, IndexKind.PRODUCER_SNAPSHOT))
        except ObjectMissing:
            return None

    def drop_unused_files(self) -> None:
        """Remove the files of indexes that were not used since the last call."""
        if self._files is not None:
            for segment_id, kind in self._indexes:
                self._files.note_use(segment_id, kind)
            self._files.drop_unused()

    def forget(self, segment_id: bytes) -> None:
        """Remove what is cached of a deleted segment."""
        self._indexes.forget(lambda key: key[0] == segment_id)
        self._chunks.forget(lambda key: key[0] == segment_id)
        if self._files is not None:
            self._files.forget(segment_id)

    def _find(self, segment: RemoteSegment, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends after an offset."""
        index = self._index(segment, IndexKind.OFFSET)
        entry_bytes = OffsetIndex.struct.size
        relative = offset - segment.start_offset
        number = _floor(index, OffsetIndex.struct.unpack_from, entry_bytes, relative)
        position = 0
        if number >= 0:
            # An entry has the last offset of its batch.
            position = OffsetIndex.struct.unpack_from(index, number * entry_bytes)[1]
            if not 0 <= position < segment.size_bytes:
                raise StoreError(f"an offset index is damaged: it has position {position}")
        for at, header in self._batches(segment, position):
            if header.end_offset > offset:
                return at, header
        return None

    def _batches(self, segment: RemoteSegment, position: int) -> Iterator[tuple[int, BatchHeader]]:
        window: Buffer = b""
        start = position
        while position < segment.size_bytes:
            at = position - start
            if at + HEADER_BYTES > len(window):
                end = min(position + _SCAN_BYTES, segment.size_bytes)
                window, start, at = self._bytes(segment, position, end), position, 0
                if len(window) < HEADER_BYTES:
                    raise StoreError(f"a segment ends within a batch at position {position}")
            header = read_header(window, at)
            if header.size_bytes < HEADER_BYTES:
                raise StoreError(f"a segment is damaged at position {position}")
            yield position, header
            position += header.size_bytes

    def _bytes(self, segment: RemoteSegment, start: int, end: int) -> Buffer:
        first, last = start // CHUNK_BYTES, max(end - 1, start) // CHUNK_BYTES
        pieces = []
        for number in range(first, last + 1):
            base = number * CHUNK_BYTES
            chunk = memoryview(self._chunk(segment, number))
            pieces.append(chunk[max(start - base, 0) : end - base])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _chunk(self, segment: RemoteSegment, number: int) -> Buffer:
        start = number * CHUNK_BYTES
        end = min(start + CHUNK_BYTES, segment.size_bytes)

        def load() -> Buffer:
            data = self._layout.read(segment, start, end)
            if len(data) != end - start:
                raise StoreError(f"{len(data)} of {end - start} bytes of a segment are left")
            return data

        return self._chunks.get((segment.id, number), load)

    def _index(self, segment: RemoteSegment, kind: IndexKind) -> Buffer:
        def load() -> Buffer:
            if self._files is None:
                return self._layout.index(segment, kind)
            return self._files.get(segment, kind, lambda: self._layout.index(segment, kind))

        return self._indexes.get((segment.id, kind), load)


def _floor(
    data: Buffer, unpack: Callable[[Buffer, int], tuple[int, ...]], entry_bytes: int, key: int
) -> int:
    """The number of the last entry whose first number is at most `key`; -1 if there is none."""
    entries = range(len(data) // entry_bytes)
    return bisect_right(entries, key, key=lambda number: unpack(data, number * entry_bytes)[0]) - 1


def _records(batch: Buffer) -> Iterator[Record]:
    try:
        yield from decode_records(batch)
    except KafkaError as error:
        raise StoreError(f"a batch is damaged: {error}") from error


def _headers(records: Buffer) -> Iterator[BatchHeader]:
    """The headers of the batches that are complete."""
    position = 0
    while position + HEADER_BYTES <= len(records):
        header = read_header(records, position)
        position += header.size_bytes
        if position > len(records):
            return
        yield header


def _marker_of(aborted: AbortedTransaction) -> int:
    return aborted.last_offset
