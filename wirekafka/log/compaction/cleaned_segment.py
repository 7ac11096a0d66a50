"""Writes the new segment of a cleaning, indexes included, as `.cleaned` files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from wirekafka.codec.batch import Buffer, read_header
from wirekafka.log.aborted_index import ENTRY, AbortedTransaction
from wirekafka.log.crash_cleanup import CLEANED_SUFFIX
from wirekafka.log.files import Disk
from wirekafka.log.index import OffsetIndex, TimeIndex
from wirekafka.log.segment import LOG_SUFFIX, SIDE_SUFFIXES, TRANSACTION_INDEX_SUFFIX, file_name

_WRITE_BYTES = 1 << 20


class CleanedSizes(NamedTuple):
    """The sizes of the new segment's files; a transaction index of 0 bytes has no file."""

    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    transaction_index_bytes: int


class CleanedSegment:
    """A new segment in `.cleaned` files, to be finished or discarded. Raises OSError."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, interval_bytes: int):
        self._disk = disk
        self._stem = f"{directory}/{file_name(base_offset, '')}"
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._size_bytes = 0
        self._since_entry_bytes = 0
        self._newest = (-1, base_offset)
        self._last_indexed = -1
        self._index, self._time_index, self._aborted = bytearray(), bytearray(), bytearray()
        self.discard()  # Files that an interrupted cleaning left.
        self._file = disk.create(self._path(LOG_SUFFIX))

    def append(self, batch: Buffer) -> None:
        """Add a batch, and index it as an append to the log does."""
        header = read_header(batch)
        last_offset = header.end_offset - 1
        if header.max_timestamp > self._newest[0]:
            self._newest = header.max_timestamp, last_offset
        if self._since_entry_bytes > self._interval_bytes:
            relative = last_offset - self._base_offset
            self._index += OffsetIndex.struct.pack(relative, self._size_bytes)
            self._note_newest()
            self._since_entry_bytes = 0
        self._since_entry_bytes += len(batch)
        self._size_bytes += len(batch)
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        if self._pending_bytes >= _WRITE_BYTES:
            self._write()

    def note_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Index aborted transactions whose markers are in this segment."""
        for each in aborted:
            self._aborted += ENTRY.pack(0, *each)

    def finish(self) -> CleanedSizes:
        """Write and sync the files and the directory."""
        self._write()
        self._note_newest()
        self._file.fsync()
        self._file.close()
        sides = zip(SIDE_SUFFIXES, (self._index, self._time_index, self._aborted), strict=True)
        for suffix, data in sides:
            if data or suffix != TRANSACTION_INDEX_SUFFIX:
                self._disk.write(self._path(suffix), bytes(data))
                self._disk.fsync(self._path(suffix))
        self._disk.fsync_directory(self._stem.rpartition("/")[0])
        return CleanedSizes(
            self._size_bytes, len(self._index), len(self._time_index), len(self._aborted)
        )

    def discard(self) -> None:
        """Remove the files, if they exist."""
        for suffix in (LOG_SUFFIX, *SIDE_SUFFIXES):
            with suppress(FileNotFoundError):
                self._disk.unlink(self._path(suffix))

    def _note_newest(self) -> None:
        timestamp, offset = self._newest
        if timestamp > self._last_indexed:
            self._last_indexed = timestamp
            self._time_index += TimeIndex.struct.pack(timestamp, offset - self._base_offset)

    def _write(self) -> None:
        if self._pending:
            # Joined, because one call takes at most IOV_MAX buffers.
            data = b"".join(self._pending)
            self._file.append((data,), len(data))
            self._pending = []
            self._pending_bytes = 0

    def _path(self, suffix: str) -> str:
        return f"{self._stem}{suffix}{CLEANED_SUFFIX}"
