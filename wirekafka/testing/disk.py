"""The disk of a broker under test: it can be made full, and can leave out fsyncs."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from wirekafka.log.files import Buffer, RealDisk, RealFile


class TestDisk(RealDisk):
    """Real files; while `is_full`, every append of records fails with ENOSPC.

    Without `syncs`, fsync does nothing: data of a killed process survives all the same, and a
    temporary directory need not survive a power failure.
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

    def sync_all(self, path: str) -> None:
        if self.syncs:
            super().sync_all(path)

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
