"""A segment's sparse indexes on disk: offset to position, and timestamp to offset."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from wirekafka.log.files import Disk, File

TEMPORARY_SUFFIX = ".tmp"
ABSENT: Final = -1
"""The size of an index that has no file yet."""

_WRITE_BYTES = 4096
_GUESSED_PAIRS = 256

_NO_FILE: Final = 0
_REBUILT: Final = 1
_IN_PLACE: Final = 2


class OffsetEntry(NamedTuple):
    """A batch's last offset, and where in the log file the batch starts."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp so far in ms, and the last offset of the first batch that has it."""

    timestamp: int
    offset: int


class EntryFile:
    """An append-only index file of pairs of integers, in order of the first integer.

    Pairs are written a page at a time and at `write`; a crash loses none, as indexes are then
    rebuilt. Only the last pair is held in memory. The file of a new index is created with the
    first page or at `finish`: most partitions need none before they stop.
    """

    suffix: ClassVar[str]
    struct: ClassVar[Struct]

    __slots__ = (
        "_base_offset",
        "_directory",
        "_disk",
        "_file",
        "_last",
        "_pending",
        "_stage",
        "size_bytes",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, size_bytes: int):
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._file: File | None = None
        self._stage = _NO_FILE if size_bytes == ABSENT else _IN_PLACE
        self._pending: bytearray | None = None
        self._last: tuple[int, int] | None = None
        self.size_bytes = max(size_bytes, 0)

    def __len__(self) -> int:
        return self.size_bytes // self.struct.size

    @property
    def last(self) -> tuple[int, int] | None:
        """The last pair; None when there is none."""
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
        """The last pair whose first number is at most `key`, and the next pair."""
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
            with suppress(OSError):  # The pairs stay pending; the next write raises.
                self.write()

    def write(self) -> None:
        """Write pending pairs to the file. Raises OSError."""
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
            if self._stage != _NO_FILE:
                self._opened().truncate(size_bytes)
        self.size_bytes = size_bytes
        self._last = None

    def rebuild(self) -> None:
        """Start over in a temporary file, until `finish` is called. Raises OSError."""
        self._forget()
        self._stage = _REBUILT
        self._disk.write(self.path, b"")
        self.size_bytes = 0
        self._last = None

    def finish(self) -> None:
        """Write pending pairs; afterwards the file has its final name. Raises OSError."""
        self.write()
        if self._stage == _NO_FILE:
            self._create()
        elif self._stage == _REBUILT:
            self._opened().rename(self.path.removesuffix(TEMPORARY_SUFFIX))
            self._stage = _IN_PLACE

    def close(self) -> None:
        """Write pending pairs and close the descriptor. Raises OSError."""
        self.write()
        self._forget()

    def release(self) -> None:
        """Close the descriptor without writing pending pairs."""
        if self._file is not None:
            self._file.close()

    def moved(self, directory: str) -> None:
        """Set the new path of the log's directory after it was renamed."""
        self._directory = directory
        if self._file is not None:
            self._file.moved(self.path)

    @property
    def path(self) -> str:
        """The path of the file, with a temporary suffix during `rebuild`."""
        name = f"{self._base_offset:020d}{self.suffix}"
        return f"{self._directory}/{name}{TEMPORARY_SUFFIX if self._stage == _REBUILT else ''}"

    def _guessed(self, key: int, last: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """As `around`, by one read at an interpolated position; None where that misses the key.

        It mostly hits. A binary search takes a dozen reads instead: 60 of the 560 µs of a Fetch
        of 1 MiB.
        """
        size = self.struct.size
        start = max(key * len(self) // max(last, 1) - _GUESSED_PAIRS // 2, 0)
        read_bytes = min(_GUESSED_PAIRS * size, self._written_bytes() - start * size)
        if read_bytes <= 0:
            return None
        window = self._opened().pread(read_bytes, start * size)
        unpack = self.struct.unpack_from
        count = len(window) // size
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
        if self._stage == _NO_FILE:
            self._create()
        if self._file is None:
            self._file = self._disk.open(self.path, self._written_bytes())
        return self._file

    def _create(self) -> None:
        try:
            self._file = self._disk.create(self.path)
        except FileExistsError:
            # Left from a segment of the same base offset that lost its log file in a crash.
            self._disk.write(self.path, b"")
        self._stage = _IN_PLACE

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
        """The last entry, None without one."""
        last = self.last
        return None if last is None else OffsetEntry(last[0] + self._base_offset, last[1])

    def positions_around(self, offset: int) -> tuple[int, int]:
        """Return what `position_before` does, and the next indexed position, -1 for none."""
        before, after = self.around(offset - self._base_offset)
        return before[1] if before is not None else 0, after[1] if after is not None else -1

    def position_before(self, offset: int) -> int:
        """The closest indexed position at or before the batch that holds `offset`; 0 if none."""
        pair = self.floor(offset - self._base_offset)
        return pair[1] if pair is not None else 0

    def cut(self, offset: int) -> None:
        """Forget entries for `offset` and above. Raises OSError."""
        relative = offset - self._base_offset - 1
        self.truncate(bisect_right(range(len(self)), relative, key=self._first_of))

    def is_full(self, limit_bytes: int) -> bool:
        """Whether the segment must roll because the index is full, by Kafka's rule."""
        return self.size_bytes // 8 >= limit_bytes // 8


class TimeIndex(EntryFile):
    """`.timeindex`: 12 bytes an entry, a timestamp and a relative offset; both only grow."""

    suffix = ".timeindex"
    struct = Struct(">qi")

    __slots__ = ()

    def add(self, timestamp: int, offset: int) -> None:
        """Add an entry for the largest timestamp so far, if that has grown."""
        last = self.last
        if last is None or timestamp > last[0]:
            self.append(timestamp, offset - self._base_offset)

    def last_entry(self) -> TimeEntry | None:
        """The entry with the largest timestamp, None without one."""
        last = self.last
        return None if last is None else TimeEntry(last[0], last[1] + self._base_offset)

    def before(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is at most `timestamp`."""
        pair = self.floor(timestamp)
        return None if pair is None else TimeEntry(pair[0], pair[1] + self._base_offset)

    def cut(self, offset: int) -> None:
        """Forget entries for `offset` and above. Raises OSError."""
        relative = offset - self._base_offset - 1
        self.truncate(bisect_right(range(len(self)), relative, key=self._second_of))

    def is_full(self, limit_bytes: int) -> bool:
        """As `OffsetIndex.is_full`; the last slot is kept for the entry that seals the segment."""
        return self.size_bytes // 12 >= limit_bytes // 12 - 1
