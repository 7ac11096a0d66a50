"""Syncs the files of a log to the medium, in another thread than appends."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from wirekafka.log.checkpoints import PARTITION_METADATA
from wirekafka.log.epochs import FILE_NAME as EPOCHS_NAME
from wirekafka.log.files import Disk
from wirekafka.log.segment import Segment

_MANY = 200
"""The number of logs from which on the file system is synced rather than their files."""


class Flush:
    """The files to sync before a log's recovery point can advance to `end_offset`.

    A flush must not be repeated after `SyncFailed`: the system may have dropped the unwritten pages
    and report success. After an error before any sync, such as a file that cannot be opened for
    lack of descriptors, another flush may follow.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_segments",
        "_small_files",
        "end_offset",
        "generation",
        "is_complete",
    )

    def __init__(self, disk: Disk, segments: Sequence[Segment], end_offset: int, generation: int):
        self._disk = disk
        self._segments = segments
        self._directory: str | None = None
        self._small_files: list[str] = []
        self.end_offset = end_offset
        self.is_complete = False
        """Whether the side files of the last segment are synced too, for a clean stop."""
        self.generation = generation
        """The log's generation at the start; another at the end: it has been truncated."""
        # The last segment's indexes are rebuilt after a crash, the others' are trusted.
        for segment in segments[:-1]:
            segment.seal()
            self._small_files += segment.side_paths()

    def add_names(self, directory: str) -> None:
        """Sync the directory as well, because files were created in it."""
        self._directory = directory
        self._small_files += [f"{directory}/{EPOCHS_NAME}", f"{directory}/{PARTITION_METADATA}"]

    def add_files(self, paths: Sequence[str]) -> None:
        """Sync these small files as well, if they exist."""
        self._small_files += paths

    def run(self) -> None:
        """Sync the files; may run in any thread. Raises OSError."""
        for segment in self._segments:
            with suppress(FileNotFoundError):  # Deleted meanwhile.
                segment.file.fsync()
        for path in self._small_files:
            with suppress(FileNotFoundError):
                self._disk.fsync(path)
        if self._directory is not None:
            with suppress(FileNotFoundError):
                self._disk.fsync_directory(self._directory)
                self._disk.fsync_directory(self._directory.rpartition("/")[0])


def run_all(disk: Disk, path: str, flushes: Sequence[Flush], threads: int) -> None:
    """Sync the files of several logs of a directory. Raises OSError.

    As many files at a time as there are threads; of very many logs, the whole file system by one
    call, which takes a hundredth of the time.
    """
    if len(flushes) >= _MANY:
        disk.sync_all(path)
    elif threads > 1 and len(flushes) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(Flush.run, flushes))
    else:
        for flush in flushes:
            flush.run()
