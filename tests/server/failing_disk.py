"""A disk of which some directories fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

from wirekafka.log.files import Buffer, Lock, RealDisk, RealFile


class FailingDisk(RealDisk):
    """Real files; everything that is written below a path in `failed` ends in an I/O error."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    def check(self, path: str) -> None:
        for each in self.failed:
            if path == each or path.startswith(f"{each}/"):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def create(self, path: str) -> RealFile:
        self.check(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        return _File(self, path, 0)

    def open(self, path: str, size_bytes: int) -> RealFile:
        return _File(self, path, size_bytes)

    def lock(self, path: str) -> Lock:
        self.check(path)
        return super().lock(path)

    def make_directory(self, path: str) -> None:
        self.check(path)
        super().make_directory(path)

    def write_atomic(self, path: str, data: bytes) -> None:
        self.check(path)
        super().write_atomic(path, data)

    def free_bytes(self, path: str) -> int:
        self.check(path)
        return super().free_bytes(path)


class _File(RealFile):
    __slots__ = ()

    _disk: Any

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        self._disk.check(self.path)
        super().append(buffers, size_bytes)

    def fsync(self) -> None:
        self._disk.check(self.path)
        super().fsync()
