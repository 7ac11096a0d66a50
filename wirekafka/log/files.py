"""The file system interface of the log, and the only module that calls the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from wirekafka.log.disk_errors import OUT_OF_DESCRIPTORS, SyncFailed

Buffer = bytes | bytearray | memoryview

_READ_BYTES = 1 << 16
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_CLONE = 0x40049409  # FICLONE: XFS and Btrfs share the blocks of a copy.
_COPY_BYTES = 1 << 20
_MOST_EXAMINED_BYTES = 1 << 31
"""No file of Kafka is larger: positions in segments and indexes are 32-bit integers."""
_MOST_BUFFERS = 1024  # IOV_MAX on Linux and macOS


class DirectoryLocked(Exception):
    """Another process (or another broker in this one) holds the lock file."""


class FileAccess(NamedTuple):
    """Who may change a file or directory: its owner, and whether the owner may."""

    path: str
    owner_id: int
    is_writable: bool
    is_link: bool


class DirectoryEntry(NamedTuple):
    """An entry of a directory; size and modification time are 0 for directories."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


class ReadableFile(Protocol):
    """A file that is only read. Errors are `OSError`."""

    path: str

    @property
    def size_bytes(self) -> int:
        """The size when the file was opened, or as far as it has been appended to here."""

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer at the end of the file."""


class ReadableDisk(Protocol):
    """The files of others: nothing is written, created or locked. Errors are `OSError`."""

    def read(self, path: str) -> bytes:
        """All bytes of a small file."""

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """The entries of a directory, in no particular order."""

    def open_to_read(self, path: str) -> OpenedFile:
        """An open file, which can be read even after it has been renamed or deleted."""


class OpenedFile(ReadableFile, Protocol):
    """A file that stays open until `close`."""

    @property
    def identity(self) -> tuple[int, int]:
        """Numbers that no other file has while this one is open."""

    def close(self) -> None:
        """Release the descriptor."""


class File(Protocol):
    """A file that is appended to, read at positions, and truncated. Errors are `OSError`.

    `fsync` raises `SyncFailed` if written data may be lost, and any other OSError if no sync was
    tried.
    """

    path: str
    size_bytes: int

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        """Write the buffers, `size_bytes` in all, at the end: wholly, or not at all."""

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer at the end of the file."""

    def fsync(self) -> None:
        """Wait until written data is on the medium. May be called from another thread."""

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to a smaller size; the space that was preallocated is freed."""

    def preallocate(self, size_bytes: int) -> None:
        """Reserve space for a file of that size, whose present size does not change.

        Never fails: without space, or where that is not supported, appends reserve it.
        """

    def rename(self, path: str) -> None:
        """Rename the file within its directory; open readers are not affected."""

    def moved(self, path: str) -> None:
        """Set the new path after a directory above was renamed."""

    def delete(self) -> None:
        """Unlink the file; it can be read through this object as long as that exists."""

    def close(self) -> None:
        """Release the descriptor. A later use opens the file again."""

    def fileno(self) -> int:
        """A descriptor for `sendfile`, valid until the next call on the same disk."""


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Release the lock and remove the file."""


class Disk(Protocol):
    """The file system operations of the log. Paths are strings; errors are `OSError`.

    A failed fsync raises `SyncFailed`, in `write_atomic` too.
    """

    holds: int
    """How many snapshots take files just now: no file is deleted or replaced meanwhile, and any
    file may get a second name."""

    def create(self, path: str) -> File:
        """Create an empty file. Raises FileExistsError."""

    def open(self, path: str, size_bytes: int) -> File:
        """An existing file of a size already known (from `list_directory`); opened on first use."""

    def read(self, path: str) -> bytes:
        """All bytes of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Replace a small file atomically for a killed process, but not for a power cut."""

    def write_new(self, path: str, data: bytes) -> None:
        """Write a small file that does not exist: after a kill it may be missing or empty."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a small file: after a crash it is the old file or the new file, whole."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""

    def link(self, old: str, new: str) -> None:
        """Give a file that nobody appends to a second name, on the same file system.

        The bytes are shared until a `File` of either name is appended to or truncated, which first
        replaces the file of that name by a copy.
        """

    def copy_file(self, old: str, new: str, size_bytes: int) -> None:
        """Copy the first bytes of a file, which may be appended to meanwhile, to a new file.

        Raises FileExistsError, and OSError if the file is shorter.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file or an empty directory of the new name."""

    def unlink(self, path: str) -> None:
        """Remove a file. FileNotFoundError when there is none."""

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """The entries of a directory, in no particular order."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents. Raises FileExistsError."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents, if it exists."""

    def remove_files(self, path: str, most: int) -> int:
        """Remove up to `most` files of a directory, and after the last one the directory.

        Returns how many were removed, fewer than `most` only when the directory is gone.
        """

    def fsync(self, path: str) -> None:
        """Wait until a small file is on the medium."""

    def fsync_directory(self, path: str) -> None:
        """Wait until the names in a directory are on the medium."""

    def sync_all(self, path: str) -> None:
        """Wait until all that was written to the file system of a path is on the medium."""

    def lock(self, path: str) -> Lock:
        """Take a lock file as Kafka does. Raises `DirectoryLocked`."""

    def free_bytes(self, path: str) -> int:
        """The free space of the file system of a path."""

    def total_bytes(self, path: str) -> int:
        """The size of the file system of a path."""


class RealDisk:
    """The operating system's files, with a bounded number of them open at a time.

    Not thread-safe except for `fsync`. `open_files_limit` 0 stands for half of the process's
    limit; the rest is for sockets.
    """

    def __init__(self, open_files_limit: int = 0):
        if open_files_limit <= 0:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            open_files_limit = 1 << 15 if soft == resource.RLIM_INFINITY else soft // 2
        self._open_files_limit = max(open_files_limit, 8)
        self._opened: dict[RealFile, None] = {}
        self.holds = 0

    def create(self, path: str) -> RealFile:
        os.close(self._descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        return RealFile(self, path, 0)

    def open(self, path: str, size_bytes: int) -> RealFile:
        return RealFile(self, path, size_bytes)

    def read(self, path: str) -> bytes:
        # Without Python's file objects, for speed: a start reads thousands of such files.
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
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)

    def write_new(self, path: str, data: bytes) -> None:
        # Neither a temporary name nor a rename: a new topic has thousands of these.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o644)
        try:
            _write_all(descriptor, data)
            _fsync_open(descriptor, temporary)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        self.fsync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def copy_file(self, old: str, new: str, size_bytes: int) -> None:
        source = os.open(old, os.O_RDONLY | os.O_CLOEXEC)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            target = os.open(new, flags, 0o644)
            try:
                _copy(source, target, size_bytes, old)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def open_to_read(self, path: str) -> ReadOnlyFile:
        return ReadOnlyFile(self._descriptor(path, os.O_RDONLY | os.O_CLOEXEC), path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        entries = []
        with os.scandir(path) as found:
            for entry in found:
                try:
                    is_directory = entry.is_dir()
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise
                    is_directory = False  # As any link that leads nowhere.
                if is_directory:
                    # A start lists thousands of logs, whose times are not used.
                    entries.append(DirectoryEntry(entry.name, True, 0, 0))
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                modified_ms = status.st_mtime_ns // 1_000_000
                entries.append(DirectoryEntry(entry.name, False, status.st_size, modified_ms))
        return entries

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileNotFoundError:
            os.makedirs(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=not os.path.lexists(path))

    def remove_files(self, path: str, most: int) -> int:
        try:
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        removed = 0
        try:
            for name in os.listdir(directory):
                if removed == most:
                    return removed
                os.unlink(name, dir_fd=directory)
                removed += 1
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(path)  # Not made by a broker: there is a directory in it.
            return removed
        finally:
            os.close(directory)
        if removed < most:
            os.rmdir(path)
        return removed

    def fsync(self, path: str) -> None:
        _fsync(path, os.O_RDONLY)

    def fsync_directory(self, path: str) -> None:
        _fsync(path or ".", os.O_RDONLY | os.O_DIRECTORY)

    def sync_all(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync_file_system(descriptor, path)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> Lock:
        return RealLock(path)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def _opening(self, file: RealFile) -> None:
        while len(self._opened) >= self._open_files_limit:
            self._close_one()
        self._opened[file] = None

    def _close_one(self) -> None:
        """Close one of the open files, if it has not been used again since it was opened."""
        opened = self._opened
        oldest = next(iter(opened))
        del opened[oldest]
        if oldest._recent:  # The files of busy partitions stay open.
            oldest._recent = False
            opened[oldest] = None
        else:
            oldest._release()

    def _descriptor(self, path: str, flags: int) -> int:
        """Open a file; where descriptors are used up, files that are kept open make room for it."""
        while True:
            try:
                return os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._opened:
                    raise
            self._close_one()

    def _closing(self, file: RealFile) -> None:
        self._opened.pop(file, None)


class ExaminedDisk(RealDisk):
    """A disk to examine: only regular files are read, up to 2 GiB, and nothing is changed."""

    def lock(self, path: str) -> Lock:
        """Raises `DirectoryLocked` if the lock is held, and takes none: that creates a file."""
        if is_locked(path):
            raise DirectoryLocked(f"{path} is held by a node")
        return _NoLock()

    def read(self, path: str) -> bytes:
        # The descriptor of a FIFO would be waited for, and a device has no end.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            if status.st_size > _MOST_EXAMINED_BYTES:
                raise OSError(errno.EFBIG, f"larger than {_MOST_EXAMINED_BYTES} bytes", path)
            parts = []
            while data := os.read(descriptor, _COPY_BYTES):
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(descriptor)


class _NoLock:
    def release(self) -> None:
        pass


class RealFile:
    """A file whose descriptor is opened on use; its disk closes it to stay within the limit.

    A snapshot or a branch may have linked it under another name. So the first append, and every
    truncation, look at the number of names: with several, the file is replaced by a copy first.
    """

    __slots__ = ("_descriptor", "_disk", "_is_ready", "_recent", "path", "size_bytes")

    def __init__(self, disk: RealDisk, path: str, size_bytes: int):
        self.path = path
        self.size_bytes = size_bytes
        self._disk = disk
        self._descriptor = -1
        self._recent = False
        self._is_ready = False  # For an append: whole, and under this name only.

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._open()
        else:
            self._recent = True
        if not self._is_ready:
            descriptor = self._prepare()
        try:
            written = os.writev(descriptor, buffers)
            if written != size_bytes:
                self._append_rest(buffers, written, size_bytes)
        except OSError:
            self._is_ready = False
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
        # A separate descriptor: the event loop's thread may close the shared one meanwhile.
        _fsync(self.path, os.O_RDWR)

    def truncate(self, size_bytes: int) -> None:
        if self._disk.holds or os.stat(self.path).st_nlink > 1:
            self._take_copy(size_bytes)
        else:
            os.truncate(self.path, size_bytes)
        self.size_bytes = size_bytes
        self._is_ready = False

    def preallocate(self, size_bytes: int) -> None:
        with suppress(OSError):
            _reserve(self._descriptor if self._descriptor >= 0 else self._open(), size_bytes)

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
        descriptor = self._disk._descriptor(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self._disk._opening(self)
        self._descriptor = descriptor
        return descriptor

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

    def _prepare(self) -> int:
        """Make the file ready for appends; returns its descriptor."""
        status = os.fstat(self._descriptor)
        if status.st_nlink > 1:
            self._take_copy(self.size_bytes)
            self._open()
        elif status.st_size > self.size_bytes:
            self._mend()
        self._is_ready = True
        return self._descriptor

    def _take_copy(self, size_bytes: int) -> None:
        """Replace the file by a copy of its first bytes, which has no other name."""
        temporary = self.path + ".tmp"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        self._disk.copy_file(self.path, temporary, size_bytes)
        self._disk.fsync(temporary)
        self.close()
        os.replace(temporary, self.path)
        self._disk.fsync_directory(os.path.dirname(self.path))

    def _mend(self) -> None:
        """Remove the rest of a failed append, or raise: the next append would follow garbage."""
        os.ftruncate(self._descriptor, self.size_bytes)
        self._is_ready = True


class ReadOnlyFile:
    """A file of another process, open for reading alone: its directory may be read-only."""

    __slots__ = ("_descriptor", "identity", "path", "size_bytes")

    def __init__(self, descriptor: int, path: str):
        status = os.fstat(descriptor)
        self._descriptor = descriptor
        self.path = path
        self.size_bytes = status.st_size
        self.identity = (status.st_dev, status.st_ino)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return os.pread(self._descriptor, size_bytes, position)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealLock:
    """An fcntl lock, the kind Java's FileLock takes; flock would not keep Kafka out."""

    # The kernel ties such a lock to the process, so two brokers in one process would not see each
    # other's, and closing any descriptor of the file would drop it.
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
        try:
            with suppress(FileNotFoundError):  # A temporary directory may be gone before its node.
                os.unlink(self._path)
        finally:
            os.close(self._descriptor)


def is_locked(path: str) -> bool:
    """Whether a lock file is held, by another process or by a broker in this one.

    Nothing is changed, and the lock is not taken. Raises OSError.
    """
    # First: to close a descriptor of the file would drop a lock of this process.
    if os.path.realpath(path) in RealLock._held:
        return True
    try:
        # Nor may a FIFO of that name be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return True
    finally:
        os.close(descriptor)
    return False


def access_below(path: str) -> Iterator[FileAccess]:
    """Who may change a directory, and each file and directory below it. Raises OSError."""
    for folder, names, files in os.walk(path, onerror=_raise):
        for name in ("", *names, *files) if folder == path else (*names, *files):
            found = os.path.join(folder, name) if name else folder
            try:
                status = os.lstat(found)
            except FileNotFoundError:
                continue  # The node deletes files while it runs.
            is_link = stat.S_ISLNK(status.st_mode)
            is_writable = is_link or bool(status.st_mode & stat.S_IWUSR)
            yield FileAccess(found, status.st_uid, is_writable, is_link)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def _copy(source: int, target: int, size_bytes: int, path: str) -> None:
    """Copy bytes between descriptors; file systems that can share the blocks."""
    if os.fstat(source).st_size == size_bytes:
        with suppress(OSError):
            fcntl.ioctl(target, _CLONE, source)
            return
    copied = 0
    while copied < size_bytes:
        most = min(size_bytes - copied, _COPY_BYTES)
        data = os.pread(source, most, copied)
        if not data:
            raise OSError(errno.EIO, f"it ends at {copied}, not at {size_bytes}", path)
        _write_all(target, data)
        copied += len(data)


def _sync_file_system(descriptor: int, path: str) -> None:
    """Sync by one call, not file by file. Raises SyncFailed."""
    import ctypes  # Only for snapshots.

    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()  # On macOS.
    elif sync(descriptor) != 0:
        code = ctypes.get_errno()
        raise SyncFailed(code, os.strerror(code), path)


def _fsync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        _fsync_open(descriptor, path)
    finally:
        os.close(descriptor)


def _fsync_open(descriptor: int, path: str) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, path) from error


def _reserve(descriptor: int, size_bytes: int) -> None:
    """Reserve blocks as `fallocate --keep-size` does. Raises OSError."""
    import ctypes  # Only where a log is preallocated.

    allocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if allocate is None:
        return  # Not on macOS. Python's own function would change the file's size.
    offset_type = ctypes.c_int64
    allocate.argtypes = (ctypes.c_int, ctypes.c_int, offset_type, offset_type)
    if allocate(descriptor, _KEEP_SIZE, 0, size_bytes) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _after(buffers: Sequence[Buffer], skip: int) -> list[Buffer]:
    rest: list[Buffer] = []
    for buffer in buffers:
        if skip >= len(buffer):
            skip -= len(buffer)
        else:
            rest.append(memoryview(buffer)[skip:] if skip else buffer)
            skip = 0
    return rest
