"""Making what is in a log survive a power cut, off the thread that appends to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from wirekafka.log.checkpoints import PARTITION_METADATA
from wirekafka.log.epochs import FILE_NAME as EPOCHS_NAME
from wirekafka.log.files import Disk
from wirekafka.log.segment import Segment


class Flush:
    """What to sync so that the recovery point can move to `end_offset`.

    After an error nothing may be tried again: the system may have dropped the pages and call
    them clean.
    """

    __slots__ = ("_directory", "_disk", "_segments", "end_offset")

    def __init__(self, disk: Disk, segments: Sequence[Segment], end_offset: int):
        self._disk = disk
        self._segments = segments
        self._directory: str | None = None
        self.end_offset = end_offset
        for segment in segments[:-1]:
            segment.seal()

    @property
    def has_names(self) -> bool:
        """Whether the names of the files are synced too."""
        return self._directory is not None

    def add_names(self, directory: str) -> None:
        """Sync the small files and the directory as well: there is something new in it."""
        self._directory = directory

    def run(self) -> None:
        """Sync. Raises OSError. For any thread: touches no state that others change."""
        for segment in self._segments:
            with suppress(FileNotFoundError):  # Deleted meanwhile.
                segment.file.fsync()
        # The last segment's indexes are rebuilt after a crash, the others' are trusted.
        for segment in self._segments[:-1]:
            segment.fsync_indexes()
        if self._directory is not None:
            with suppress(FileNotFoundError):
                self._run_names(self._directory)

    def _run_names(self, directory: str) -> None:
        for name in (EPOCHS_NAME, PARTITION_METADATA):
            with suppress(FileNotFoundError):
                self._disk.fsync(f"{directory}/{name}")
        self._disk.fsync_directory(directory)
        self._disk.fsync_directory(directory.rpartition("/")[0])
