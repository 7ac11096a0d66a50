"""What a read of the log is told and gives: a stretch of a file, its bytes not yet touched."""

from __future__ import annotations

from typing import NamedTuple

from wirekafka.log.files import Buffer, File


class ReadLimits(NamedTuple):
    """How far a read may go: in bytes, and to an offset that may be the log's end."""

    max_bytes: int
    end_offset: int
    log_end_offset: int
    at_least_one: bool


class LogSlice:
    """A stretch of one log file, to be read later or sent from the file itself.

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

    def buffers(self) -> list[Buffer]:
        """The bytes. Raises OSError."""
        if self._file is None:
            return []
        return [self._file.pread(self.size_bytes, self._position)]

    def regions(self) -> list[tuple[File, int, int]]:
        """File, position and size in bytes of each stretch."""
        return [] if self._file is None else [(self._file, self._position, self.size_bytes)]


NOTHING = LogSlice(None, 0, 0)
