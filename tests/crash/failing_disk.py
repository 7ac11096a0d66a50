"""A disk in memory on which one kind of operation fails for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tests.simulation.disk import SimulatedDisk, SimulatedFile
from wirekafka.log.disk_errors import SyncFailed
from wirekafka.log.files import Buffer, DirectoryEntry

OPERATIONS = (
    "create",
    "open",
    "read",
    "append",
    "write",
    "sync",
    "rename",
    "unlink",
    "list",
    "make a directory",
    "remove",
    "measure",
)


class Failure(NamedTuple):
    """What fails: an operation, under paths that contain a text, with an errno."""

    operation: str
    where: str
    code: int


class FailingDisk(SimulatedDisk):
    """Splits each operation of `Disk` into what the system is asked for, all of which may fail."""

    def __init__(self) -> None:
        super().__init__()
        self._failure: Failure | None = None
        self.failed = 0
        """How often an operation has failed."""
        self.asked: set[str] = set()
        """The paths for which the system was asked for an operation while it failed for some."""

    @contextmanager
    def failing(self, failure: Failure) -> Iterator[None]:
        self._failure = failure
        try:
            yield
        finally:
            self._failure = None

    def ask(self, operation: str, path: str) -> None:
        """Fail if that is due."""
        failure = self._failure
        if failure is None or failure.operation != operation:
            return
        self.asked.add(path)
        if failure.where not in path:
            return
        self.failed += 1
        kind = SyncFailed if operation == "sync" else OSError
        raise kind(failure.code, os.strerror(failure.code), path)

    def create(self, path: str) -> SimulatedFile:
        self.ask("create", path)
        super().create(path)
        return FailingFile(self, path, 0)

    def open(self, path: str, size_bytes: int) -> SimulatedFile:
        return FailingFile(self, path, size_bytes)

    def read(self, path: str) -> bytes:
        self.node(path)
        self.ask("open", path)
        self.ask("read", path)
        return super().read(path)

    def write(self, path: str, data: bytes) -> None:
        self.ask("open", path)
        self.ask("write", path)
        super().write(path, data)

    def write_new(self, path: str, data: bytes) -> None:
        self.ask("create", path)
        super().create(path)
        self.ask("write", path)
        self.file(path).data[:] = data

    def write_atomic(self, path: str, data: bytes) -> None:
        self.ask("open", path)
        self.ask("write", path)
        self.ask("sync", path)
        super().write_atomic(path, data)

    def rename(self, old: str, new: str) -> None:
        self.ask("rename", old)
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        self.ask("unlink", path)
        super().unlink(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        self.ask("list", path)
        return super().list_directory(path)

    def make_directory(self, path: str) -> None:
        self.ask("make a directory", path)
        super().make_directory(path)

    def remove_tree(self, path: str) -> None:
        if self.exists(path):
            self.ask("open", path)
            self.ask("remove", path)
        super().remove_tree(path)

    def fsync(self, path: str) -> None:
        self.node(path)
        self.ask("open", path)
        self.ask("sync", path)
        super().fsync(path)

    def fsync_directory(self, path: str) -> None:
        self.node(path)
        self.ask("open", path)
        self.ask("sync", path)
        super().fsync_directory(path)

    def free_bytes(self, path: str) -> int:
        self.ask("measure", path)
        return super().free_bytes(path)


class FailingFile(SimulatedFile):
    """A file that is opened again for each use, as the least recently used ones are."""

    _disk: FailingDisk

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        self._disk.ask("open", self.path)
        self._disk.ask("append", self.path)
        super().append(buffers, size_bytes)

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._disk.ask("open", self.path)
        self._disk.ask("read", self.path)
        return super().pread(size_bytes, position)

    def truncate(self, size_bytes: int) -> None:
        self._disk.ask("truncate", self.path)
        super().truncate(size_bytes)

    def delete(self) -> None:
        self._disk.ask("open", self.path)
        super().delete()
