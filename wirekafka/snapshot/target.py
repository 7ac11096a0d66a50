"""The directory of a copy in the making: `<name>.incomplete`, which no node starts on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from wirekafka.log.checkpoints import LOCK, META_PROPERTIES
from wirekafka.log.directories.directory_identity import INCOMPLETE_PROPERTIES
from wirekafka.log.files import DirectoryLocked, Disk, Lock
from wirekafka.snapshot.manifest import UnusableSnapshot

INCOMPLETE_SUFFIX = ".incomplete"
"""Ends the name of a copy that is being made, or whose making was interrupted."""


class TargetDirectory:
    """A directory that gets its name once all is in it and on the medium."""

    def __init__(self, disk: Disk, path: str):
        self._disk = disk
        self.path = path.rstrip("/")
        self.incomplete = self.path + INCOMPLETE_SUFFIX
        self._lock: Lock | None = None

    def check(self) -> None:
        """Raise UnusableSnapshot unless the name is free."""
        if self._disk.exists(self.path):
            raise UnusableSnapshot(f"{self.path} exists: name a directory that does not exist yet")
        above = self.path.rpartition("/")[0]
        if above and not self._disk.exists(above):
            raise UnusableSnapshot(f"{above} does not exist")

    def begin(self) -> None:
        """Make the incomplete directory, in place of the rest of an interrupted copy.

        Raises UnusableSnapshot, OSError.
        """
        self.check()
        disk, path = self._disk, self.incomplete
        if disk.exists(path):
            with suppress(FileNotFoundError):
                try:
                    disk.lock(f"{path}/{LOCK}").release()
                except DirectoryLocked:
                    raise UnusableSnapshot(f"{path} is being created just now") from None
            disk.remove_tree(path)
        disk.make_directory(path)
        self._lock = disk.lock(f"{path}/{LOCK}")
        disk.write_atomic(f"{path}/{META_PROPERTIES}", INCOMPLETE_PROPERTIES)
        disk.fsync_directory(path.rpartition("/")[0] or "/")

    def finish(self, last: Mapping[str, bytes]) -> None:
        """Sync everything, write the `last` files by their paths, and give the name.

        Only then may a node start there, which trusts its files.
        """
        disk = self._disk
        disk.sync_all(self.incomplete)
        for path, text in last.items():
            disk.write_atomic(f"{self.incomplete}/{path}", text)
        self._release()
        disk.rename(self.incomplete, self.path)
        disk.fsync_directory(self.path.rpartition("/")[0] or "/")

    def discard(self) -> None:
        """Remove the incomplete directory."""
        self._release()
        self._disk.remove_tree(self.incomplete)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
