"""What can be wrong with a log that is read: damaged files, records that are gone."""

from __future__ import annotations


class ReaderError(Exception):
    """A log cannot be read, or not completely. All errors of this package are of this class."""


class UnknownLog(ReaderError):
    """There is no such topic, partition, directory or store."""


class DamagedLog(ReaderError):
    """Bytes that are no valid batches, with the file and the position in bytes of the first."""

    def __init__(self, file: str, position: int, reason: str):
        super().__init__(file, position, reason)
        self.file = file
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.file}, position {self.position}: {self.reason}"


class DataLost(ReaderError):
    """Records that were asked for are gone: deleted by retention, with the topic, or elsewhere.

    `end_offset` is `start_offset` where it is unknown which offsets are lost.
    """

    def __init__(self, log: str, start_offset: int, end_offset: int, reason: str):
        super().__init__(log, start_offset, end_offset, reason)
        self.log = log
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.reason = reason

    def __str__(self) -> str:
        if self.start_offset >= self.end_offset:
            return f"{self.log}: {self.reason}"
        return f"{self.log}, offsets {self.start_offset} up to {self.end_offset}: {self.reason}"
