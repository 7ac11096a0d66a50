"""The disk as the log sees it: the only module that asks the operating system for files."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
from collections.abc import Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview

_READ_BYTES = 1 << 16
_MOST_BUFFERS = 1024  # IOV_MAX on Linux and macOS


class DirectoryLocked(Exception):
    """Another process (or another broker in this one) holds the lock file."""


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


class File(Protocol):
    """A file that only grows at its end, or is cut back. Errors are `OSError`."""

    path: str
    size_bytes: int

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        """Write the buffers, `size_bytes` in all, at the end: wholly, or not at all."""

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer at the end of the file."""

    def fsync(self) -> None:
        """Wait until what was written is on the medium. May be called from another thread."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file back."""

    def rename(self, path: str) -> None:
        """Give the file another name in the same directory; open readers go on."""

    def moved(self, path: str) -> None:
        """Note that a directory above was renamed."""

    def delete(self) -> None:
        """Remove the name. Bytes can be read while this object is held."""

    def close(self) -> None:
        """Release the descriptor. A later use opens the file again."""

    def fileno(self) -> int:
        """A descriptor for `sendfile`, valid until the next call on the same disk."""


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Let go, and remove the file."""


class Disk(Protocol):
    """What the log needs of a file system. Paths are strings; errors are `OSError`."""

    def create(self, path: str) -> File:
        """A new, empty file. FileExistsError when there is one."""

    def open(self, path: str, size_bytes: int) -> File:
        """An existing file of a size already known (from `list_directory`); opened on first use."""

    def read(self, path: str) -> bytes:
        """All bytes of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Replace a small file: old or new after a kill, nothing promised after a power cut."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a small file so that after a crash it is the old one or the new one, whole."""

    def exists(self, path: str) -> bool:
        """Whether there is anything of that name."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of the new name."""

    def unlink(self, path: str) -> None:
        """Remove a file. FileNotFoundError when there is none."""

    def list_directory(self, path: str) -> list[Entry]:
        """What is in a directory, in no order."""

    def make_directory(self, path: str) -> None:
        """A new directory, and those above it. FileExistsError when there is one."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; nothing happens when there is none."""

    def fsync(self, path: str) -> None:
        """Wait until a small file is on the medium."""

    def fsync_directory(self, path: str) -> None:
        """Wait until the names in a directory are on the medium."""

    def lock(self, path: str) -> Lock:
        """Hold a lock file, as Kafka does it. Raises `DirectoryLocked`."""

    def free_bytes(self, path: str) -> int:
        """What the file system can still take."""

    def total_bytes(self, path: str) -> int:
        """How large the file system is."""


class RealDisk:
    """The operating system's files, with a bounded number of them open at a time.

    Not for use from several threads, `fsync` aside. `open_files_limit` 0 takes half of what the
    process may open, so that sockets have the rest.
    """

    def __init__(self, open_files_limit: int = 0):
        if open_files_limit <= 0:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            open_files_limit = 1 << 15 if soft == resource.RLIM_INFINITY else soft // 2
        self._open_files_limit = max(open_files_limit, 8)
        self._opened: dict[RealFile, None] = {}

    def create(self, path: str) -> RealFile:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        return RealFile(self, path, 0)

    def open(self, path: str, size_bytes: int) -> RealFile:
        return RealFile(self, path, size_bytes)

    def read(self, path: str) -> bytes:
        # Without Python's file objects: a start reads several thousand of such files.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, _READ_BYTES)
            if len(data) < _READ_BYTES:
                return data
            parts = [data]
            while data := os.read(descriptor, _READ_BYTES):
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def write(self, path: str, data: bytes) -> None:
        # As `read`: the first append to a partition writes one, and Python's file takes twice that.
        temporary = path + ".tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o644)
        try:
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, memoryview(data)[written:])
        finally:
            os.close(descriptor)
        os.replace(temporary, path)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.fsync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def list_directory(self, path: str) -> list[Entry]:
        entries = []
        with os.scandir(path) as found:
            for entry in found:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                modified_ms = status.st_mtime_ns // 1_000_000
                entries.append(Entry(entry.name, entry.is_dir(), status.st_size, modified_ms))
        return entries

    def make_directory(self, path: str) -> None:
        os.makedirs(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=not os.path.lexists(path))

    def fsync(self, path: str) -> None:
        _fsync(path, os.O_RDONLY)

    def fsync_directory(self, path: str) -> None:
        _fsync(path or ".", os.O_RDONLY | os.O_DIRECTORY)

    def lock(self, path: str) -> RealLock:
        return RealLock(path)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    @property
    def open_files(self) -> int:
        """Descriptors now held."""
        return len(self._opened)

    def _opening(self, file: RealFile) -> None:
        opened = self._opened
        while len(opened) >= self._open_files_limit:
            oldest = next(iter(opened))
            del opened[oldest]
            if oldest._recent:  # Used again since: the files of busy partitions stay open.
                oldest._recent = False
                opened[oldest] = None
            else:
                oldest._release()
        opened[file] = None

    def _closing(self, file: RealFile) -> None:
        self._opened.pop(file, None)


class RealFile:
    """A file whose descriptor is opened on use and may be closed behind its back."""

    __slots__ = ("_descriptor", "_disk", "_recent", "_torn", "path", "size_bytes")

    def __init__(self, disk: RealDisk, path: str, size_bytes: int):
        self.path = path
        self.size_bytes = size_bytes
        self._disk = disk
        self._descriptor = -1
        self._recent = False
        self._torn = False

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        else:
            self._recent = True
        if self._torn:
            self._mend()
        try:
            written = os.writev(descriptor, buffers)
            if written != size_bytes:
                self._append_rest(buffers, written, size_bytes)
        except OSError:
            self._torn = True
            self._mend()
            raise
        self.size_bytes += size_bytes

    def pread(self, size_bytes: int, position: int) -> bytes:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        else:
            self._recent = True
        return os.pread(descriptor, size_bytes, position)

    def fsync(self) -> None:
        # A descriptor of its own: the shared one may be closed meanwhile by the loop's thread.
        _fsync(self.path, os.O_RDWR)

    def truncate(self, size_bytes: int) -> None:
        os.truncate(self.path, size_bytes)
        self.size_bytes = size_bytes
        self._torn = False

    def rename(self, path: str) -> None:
        os.replace(self.path, path)
        self.path = path

    def moved(self, path: str) -> None:
        self.path = path

    def delete(self) -> None:
        if self._descriptor < 0:
            self._open()
        self._disk._closing(self)  # Never evicted: it could not be opened again.
        os.unlink(self.path)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._disk._closing(self)
            self._release()

    def fileno(self) -> int:
        self._recent = True
        return self._descriptor if self._descriptor >= 0 else self._open()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self._release()

    def _open(self) -> int:
        self._disk._opening(self)
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self.path, flags)
        except OSError:
            self._disk._closing(self)
            raise
        return self._descriptor

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def _append_rest(self, buffers: Sequence[Buffer], written: int, size_bytes: int) -> None:
        """The slow path of a write that was cut short: by a signal, a full disk or IOV_MAX."""
        while written < size_bytes:
            rest = _after(buffers, written)
            more = os.writev(self._descriptor, rest[:_MOST_BUFFERS])
            if more == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
            written += more

    def _mend(self) -> None:
        """Cut what a failed append left, or refuse to go on: the next one would follow garbage."""
        os.ftruncate(self._descriptor, self.size_bytes)
        self._torn = False


class RealLock:
    """An fcntl lock, the kind Java's FileLock takes; flock would not keep Kafka out."""

    # The kernel ties such a lock to the process, so two brokers in one would not see each other,
    # and closing any descriptor of the file would drop it.
    _held: set[str] = set()

    def __init__(self, path: str):
        self._path = os.path.realpath(path)
        if self._path in RealLock._held:
            raise DirectoryLocked(f"{path} is held by another broker in this process")
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise DirectoryLocked(f"{path} is held by another process") from None
        RealLock._held.add(self._path)

    def release(self) -> None:
        if self._path not in RealLock._held:
            return
        RealLock._held.discard(self._path)
        os.unlink(self._path)
        os.close(self._descriptor)


def _fsync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _after(buffers: Sequence[Buffer], skip: int) -> list[Buffer]:
    rest: list[Buffer] = []
    for buffer in buffers:
        if skip >= len(buffer):
            skip -= len(buffer)
        else:
            rest.append(memoryview(buffer)[skip:] if skip else buffer)
            skip = 0
    return rest
