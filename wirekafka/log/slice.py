"""The limits and the result of a log read: a region of a file whose bytes are not read yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.log.files import Buffer, File

_PIECE_BYTES = 128 << 10


class ReadLimits(NamedTuple):
    """The limits of a read: in bytes, and by an end offset that may be the log's end."""

    max_bytes: int
    end_offset: int
    log_end_offset: int
    at_least_one: bool


class LogSlice:
    """A region of one log file, to be read later or sent with sendfile.

    It starts at a batch boundary and may end within a batch, as Kafka's does: clients drop an
    incomplete last batch.
    """

    __slots__ = ("_file", "_position", "size_bytes")

    def __init__(self, file: File | None, position: int, size_bytes: int):
        self._file = file
        self._position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    @property
    def is_in_file(self) -> bool:
        """Whether the bytes are in a file, so that they can be sent without reading them."""
        return self._file is not None

    def buffers(self) -> list[Buffer]:
        """The bytes. Raises OSError."""
        if self._file is None:
            return []
        return [self._file.pread(self.size_bytes, self._position)]

    def pieces(self) -> Iterator[Buffer]:
        """The bytes in order, each piece read when it is asked for. Raises OSError."""
        if self._file is None:
            return
        for at in range(0, self.size_bytes, _PIECE_BYTES):
            size_bytes = min(_PIECE_BYTES, self.size_bytes - at)
            yield self._file.pread(size_bytes, self._position + at)

    def regions(self) -> list[tuple[File, int, int]]:
        """File, position and size in bytes of each region."""
        return [] if self._file is None else [(self._file, self._position, self.size_bytes)]


class MemorySlice(LogSlice):
    """Batches in memory, as remote storage returns them."""

    __slots__ = ("_data",)

    def __init__(self, data: Buffer):
        super().__init__(None, 0, len(data))
        self._data = data

    def buffers(self) -> list[Buffer]:
        return [self._data]

    def pieces(self) -> Iterator[Buffer]:
        yield self._data


NOTHING = LogSlice(None, 0, 0)
