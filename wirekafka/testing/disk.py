"""The disk of a broker under test: it can be full, and a temporary one need not be synced."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from wirekafka.log.files import Buffer, RealDisk, RealFile


class TestDisk(RealDisk):
    """Real files. `is_full` makes every append fail as it does without space.

    Without `syncs` nothing is waited for: what a killed process wrote is there all the same, and
    a temporary directory does not outlive a power cut.
    """

    __test__ = False

    def __init__(self, *, syncs: bool):
        super().__init__()
        self.is_full = False
        self.syncs = syncs

    def create(self, path: str) -> RealFile:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        return _File(self, path, 0)

    def open(self, path: str, size_bytes: int) -> RealFile:
        return _File(self, path, size_bytes)

    def write_atomic(self, path: str, data: bytes) -> None:
        if self.syncs:
            super().write_atomic(path, data)
        else:
            self.write(path, data)

    def fsync(self, path: str) -> None:
        if self.syncs:
            super().fsync(path)

    def fsync_directory(self, path: str) -> None:
        if self.syncs:
            super().fsync_directory(path)

    def free_bytes(self, path: str) -> int:
        return 0 if self.is_full else super().free_bytes(path)


class _File(RealFile):
    __slots__ = ()

    _disk: TestDisk

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        if self._disk.is_full and not self.path.rpartition("/")[0].endswith(_METADATA):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        super().append(buffers, size_bytes)

    def fsync(self) -> None:
        if self._disk.syncs:
            super().fsync()


_METADATA = "/__cluster_metadata-0"
