"""Making what is in a log survive a power cut, off the thread that appends to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from wirekafka.log.checkpoints import PARTITION_METADATA
from wirekafka.log.epochs import FILE_NAME as EPOCHS_NAME
from wirekafka.log.files import Disk
from wirekafka.log.segment import Segment


class Flush:
    """The segments and small files to sync, so that the recovery point can move to `end_offset`.

    After an error nothing may be tried again: the system may have dropped the pages and call
    them clean.
    """

    __slots__ = ("_directory", "_disk", "_segments", "end_offset")

    def __init__(
        self, disk: Disk, directory: str, segments: Sequence[Segment], end_offset: int
    ):
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self.end_offset = end_offset
        for segment in segments[:-1]:
            segment.seal()

    def run(self) -> None:
        """Sync. Raises OSError. For any thread: touches no state that others change."""
        for segment in self._segments:
            segment.fsync()
        for name in (EPOCHS_NAME, PARTITION_METADATA):
            with suppress(FileNotFoundError):
                self._disk.fsync(f"{self._directory}/{name}")
        self._disk.fsync_directory(self._directory)
        self._disk.fsync_directory(self._directory.rpartition("/")[0])
