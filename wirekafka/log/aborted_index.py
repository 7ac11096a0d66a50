"""The aborted transactions of a log: one `.txnindex` file beside each segment that has any."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from wirekafka.codec.batch import Buffer
from wirekafka.log.files import Disk, File
from wirekafka.log.producers import CompletedTransaction

ENTRY = Struct(">hqqqq")
"""34 bytes: version 0, then the fields of `AbortedTransaction`."""

_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction as a transaction index holds it; offsets are inclusive.

    `last_offset` is the offset of the abort marker, `last_stable_offset` the partition's last
    stable offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def of(cls, completed: CompletedTransaction) -> AbortedTransaction:
        """The entry of a transaction that has just been aborted."""
        return cls(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            completed.last_stable_offset,
        )


class CorruptIndex(ValueError):
    """A transaction index with impossible contents; it can be rebuilt from the segment."""


class AbortedIndex:
    """The aborted transactions whose markers lie in one segment, in order of their markers.

    The file is created with the first transaction, and read when its entries are first needed.
    Raises CorruptIndex on reading, OSError.
    """

    __slots__ = ("_disk", "_entries", "_file", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, size_bytes: int = 0):
        """`size_bytes` of the existing file, 0 when there is none."""
        self._disk = disk
        self._file: File | None = disk.open(path, size_bytes) if size_bytes else None
        self.path = path
        self._entries: list[AbortedTransaction] | None = None if size_bytes else []
        self.base_offset = base_offset

    @property
    def file(self) -> File | None:
        """The file, to be flushed, renamed or deleted with the segment; None without aborts."""
        return self._file

    @property
    def entries(self) -> list[AbortedTransaction]:
        """The entries, oldest marker first. Callers must not change the list."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    @property
    def is_loaded(self) -> bool:
        """Whether the entries are in memory, so that some of them may not be in the file."""
        return self._entries is not None

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker is the newest in the segment.

        The marker is in the log already, so an error of the file is ignored here: `write` tries
        again.
        """
        entries = self.entries
        assert not entries or aborted.last_offset > entries[-1].last_offset
        entries.append(aborted)
        with suppress(OSError):
            self.write()

    def write(self) -> None:
        """Write the entries that the file still lacks. Raises OSError."""
        entries = self.entries
        written = 0 if self._file is None else self._file.size_bytes // ENTRY.size
        if written == len(entries):
            return
        if self._file is None:
            try:
                self._file = self._disk.create(self.path)
            except FileExistsError:
                # A crash left it empty, and an empty file counts as none.
                self._file = self._disk.open(self.path, 0)
        data = b"".join(ENTRY.pack(_VERSION, *aborted) for aborted in entries[written:])
        self._file.append((data,), len(data))

    def truncate_to(self, end_offset: int) -> None:
        """Remove transactions whose markers lie at or after the segment's new end."""
        entries = self.entries
        kept = bisect_left(entries, end_offset, key=_last_offset)
        if self._file is not None and kept < len(entries):
            self._file.truncate(min(kept * ENTRY.size, self._file.size_bytes))
        del entries[kept:]

    def check(self) -> None:
        """Read the file again. Raises CorruptIndex."""
        self._entries = None if self._file is not None else []
        _ = self.entries

    def reset(self) -> None:
        """Empty the file, before it is rebuilt from the segment."""
        if self._file is not None:
            self._file.truncate(0)
        self._entries = []

    def _read(self) -> list[AbortedTransaction]:
        assert self._file is not None
        entries = decode_entries(self._file.pread(self._file.size_bytes, 0))
        if entries and entries[0].last_offset < self.base_offset:
            raise CorruptIndex(
                f"a marker at {entries[0].last_offset} in the segment of {self.base_offset}"
            )
        return entries


def aborted_between(
    indexes: Iterable[AbortedIndex], start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions that overlap an offset range, half-open, that a reader fetched.

    `indexes` are the transaction indexes of the segment that holds `start_offset` and of all later
    segments: a transaction's marker may lie far behind its data. An entry whose last stable offset
    lies at or above `end_offset` ends the search, since every later one began above it.
    """
    found = []
    for index in indexes:
        entries = index.entries
        for at in range(bisect_left(entries, start_offset, key=_last_offset), len(entries)):
            aborted = entries[at]
            if aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return found
    return found


def decode_entries(data: Buffer) -> list[AbortedTransaction]:
    """The entries of a `.txnindex` file. Raises CorruptIndex."""
    if len(data) % ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are not a whole number of aborted transactions")
    entries: list[AbortedTransaction] = []
    for version, *fields in ENTRY.iter_unpack(data):
        aborted = AbortedTransaction(*fields)
        if version > _VERSION or version < 0:
            raise CorruptIndex(f"unknown transaction index version {version}")
        if aborted.first_offset > aborted.last_offset:
            raise CorruptIndex(f"a transaction from {fields[1]} to {fields[2]}")
        if entries and aborted.last_offset <= entries[-1].last_offset:
            raise CorruptIndex(f"a marker at {fields[2]} after {entries[-1].last_offset}")
        entries.append(aborted)
    return entries


def _last_offset(aborted: AbortedTransaction) -> int:
    return aborted.last_offset
