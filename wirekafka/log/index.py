"""A segment's sparse indexes on disk: offset to position, and timestamp to offset."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from struct import Struct
from typing import ClassVar, NamedTuple

from wirekafka.log.files import Disk, File

TEMPORARY_SUFFIX = ".tmp"

_WRITE_BYTES = 4096
_GUESSED_PAIRS = 256


class OffsetEntry(NamedTuple):
    """A batch's last offset, and where in the log file the batch starts."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp so far in ms, and the last offset of the first batch that has it."""

    timestamp: int
    offset: int


class EntryFile:
    """Pairs of numbers in a file that only grows, in order of the first number.

    Pairs reach the file a page at a time and at `write`; an index is rebuilt after a crash, so
    none is lost. Nothing of the file is held in memory but its last pair.
    """

    suffix: ClassVar[str]
    struct: ClassVar[Struct]

    __slots__ = (
        "_base_offset",
        "_directory",
        "_disk",
        "_file",
        "_is_complete",
        "_last",
        "_pending",
        "size_bytes",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, size_bytes: int):
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._file: File | None = None
        self._is_complete = True
        self._pending: bytearray | None = None
        self._last: tuple[int, int] | None = None
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes // self.struct.size

    @property
    def last(self) -> tuple[int, int] | None:
        """The newest pair; None when there is none."""
        if self._last is None and self.size_bytes:
            self._last = self.pair(len(self) - 1)
        return self._last

    def pair(self, number: int) -> tuple[int, int]:
        """The pair of that number, counted from 0. Raises OSError."""
        at = number * self.struct.size
        written_bytes = self._written_bytes()
        if at >= written_bytes:
            assert self._pending is not None
            first, second = self.struct.unpack_from(self._pending, at - written_bytes)
        else:
            first, second = self.struct.unpack(self._opened().pread(self.struct.size, at))
        return first, second

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last pair whose first number is at most `key`."""
        return self.around(key)[0]

    def around(self, key: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """The last pair whose first number is at most `key`, and the next one."""
        last = self.last
        if last is None or key >= last[0]:
            return last, None  # Readers are mostly at the tail.
        guessed = self._guessed(key, last[0])
        if guessed is not None:
            return guessed
        number = bisect_right(range(len(self)), key, key=self._first_of)
        return (self.pair(number - 1) if number else None), self.pair(number)

    def append(self, first: int, second: int) -> None:
        """Add a pair; the caller keeps the order."""
        if self._pending is None:
            self._pending = bytearray()
        self._pending += self.struct.pack(first, second)
        self.size_bytes += self.struct.size
        self._last = (first, second)
        if len(self._pending) >= _WRITE_BYTES:
            with suppress(OSError):  # It stays pending; closing will tell.
                self.write()

    def write(self) -> None:
        """Hand what is pending to the file system. Raises OSError."""
        if self._pending:
            self._opened().append((self._pending,), len(self._pending))
        self._pending = None

    def truncate(self, count: int) -> None:
        """Keep the first `count` pairs. Raises OSError."""
        size_bytes = count * self.struct.size
        if size_bytes >= self.size_bytes:
            return
        written_bytes = self._written_bytes()
        if self._pending is not None and size_bytes > written_bytes:
            del self._pending[size_bytes - written_bytes :]
        else:
            self._pending = None
            self._opened().truncate(size_bytes)
        self.size_bytes = size_bytes
        self._last = None

    def rebuild(self) -> None:
        """Start over in a temporary file, until `finish` is called. Raises OSError."""
        self._forget()
        self._is_complete = False
        self._disk.write(self.path, b"")
        self.size_bytes = 0
        self._last = None

    def finish(self) -> None:
        """Write what is pending, and give a rebuilt index its name. Raises OSError."""
        self.write()
        if not self._is_complete:
            self._opened().rename(self.path.removesuffix(TEMPORARY_SUFFIX))
            self._is_complete = True

    def close(self) -> None:
        """Write what is pending and release the descriptor. Raises OSError."""
        self.write()
        self._forget()

    def release(self) -> None:
        """Close the descriptor; what is pending stays so."""
        if self._file is not None:
            self._file.close()

    def moved(self, directory: str) -> None:
        """Note that the log's directory has another name now."""
        self._directory = directory
        if self._file is not None:
            self._file.moved(self.path)

    @property
    def path(self) -> str:
        """Where the file is."""
        name = f"{self._base_offset:020d}{self.suffix}"
        return f"{self._directory}/{name}{'' if self._is_complete else TEMPORARY_SUFFIX}"

    def _guessed(self, key: int, last: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """As `around`, if the pairs are spread evenly; else None.

        Mostly they are, and one read finds what a search takes a dozen for: 60 of 560 µs of a
        Fetch of 1 MiB.
        """
        size = self.struct.size
        start = max(key * len(self) // max(last, 1) - _GUESSED_PAIRS // 2, 0)
        read_bytes = min(_GUESSED_PAIRS * size, self._written_bytes() - start * size)
        if read_bytes <= 0:
            return None
        window = self._opened().pread(read_bytes, start * size)
        unpack, count = self.struct.unpack_from, len(window) // size
        number = bisect_right(range(count), key, key=lambda nth: unpack(window, nth * size)[0])
        if not 0 < number < count:
            return None
        return unpack(window, (number - 1) * size), unpack(window, number * size)

    def _first_of(self, number: int) -> int:
        return self.pair(number)[0]

    def _second_of(self, number: int) -> int:
        return self.pair(number)[1]

    def _written_bytes(self) -> int:
        return self.size_bytes - len(self._pending or b"")

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, self._written_bytes())
        return self._file

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._pending = None


class OffsetIndex(EntryFile):
    """`.index`: 8 bytes an entry, offsets relative to the segment's base offset."""

    suffix = ".index"
    struct = Struct(">ii")

    __slots__ = ()

    def add(self, offset: int, position: int) -> None:
        """Index a batch by its last offset."""
        self.append(offset - self._base_offset, position)

    def last_entry(self) -> OffsetEntry | None:
        """The newest entry."""
        last = self.last
        return None if last is None else OffsetEntry(last[0] + self._base_offset, last[1])

    def positions_around(self, offset: int) -> tuple[int, int]:
        """As `position_before`, and the next position indexed; -1 where none is."""
        before, after = self.around(offset - self._base_offset)
        return before[1] if before is not None else 0, after[1] if after is not None else -1

    def position_before(self, offset: int) -> int:
        """A batch boundary at or before the batch that holds `offset`, as close as indexed."""
        pair = self.floor(offset - self._base_offset)
        return pair[1] if pair is not None else 0

    def cut(self, offset: int) -> None:
        """Forget entries for `offset` and above. Raises OSError."""
        relative = offset - self._base_offset - 1
        self.truncate(bisect_right(range(len(self)), relative, key=self._first_of))

    def is_full(self, limit_bytes: int) -> bool:
        """Whether the segment must roll for want of index space, as Kafka has it."""
        return self.size_bytes // 8 >= limit_bytes // 8


class TimeIndex(EntryFile):
    """`.timeindex`: 12 bytes an entry; both numbers only grow."""

    suffix = ".timeindex"
    struct = Struct(">qi")

    __slots__ = ()

    def add(self, timestamp: int, offset: int) -> None:
        """Note the largest timestamp so far; nothing happens unless it grew."""
        last = self.last
        if last is None or timestamp > last[0]:
            self.append(timestamp, offset - self._base_offset)

    def last_entry(self) -> TimeEntry | None:
        """The largest timestamp indexed."""
        last = self.last
        return None if last is None else TimeEntry(last[0], last[1] + self._base_offset)

    def before(self, timestamp: int) -> TimeEntry | None:
        """The last entry with a timestamp at most that."""
        pair = self.floor(timestamp)
        return None if pair is None else TimeEntry(pair[0], pair[1] + self._base_offset)

    def cut(self, offset: int) -> None:
        """Forget entries for `offset` and above. Raises OSError."""
        relative = offset - self._base_offset - 1
        self.truncate(bisect_right(range(len(self)), relative, key=self._second_of))

    def is_full(self, limit_bytes: int) -> bool:
        """As Kafka has it: the last slot is kept for the entry that closes the segment."""
        return self.size_bytes // 12 >= limit_bytes // 12 - 1
