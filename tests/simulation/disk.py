"""A disk in memory that loses unsynced writes, fails on demand, and crashes on demand."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from random import Random

from wirekafka.log.files import Buffer, DirectoryEntry, DirectoryLocked

SECTOR_BYTES = 512
UNBOUNDED_BYTES = 1 << 40


class Crash(BaseException):
    """The machine stops here. A BaseException, so that no code under test handles it."""


class Outcome(Enum):
    """What a crash leaves of unsynced writes."""

    ALL_KEPT = "the process was killed, the system goes on"
    UNSYNCED_LOST = "neither bytes nor names that were not synced"
    PREFIX = "each file's new bytes up to some point"
    SECTORS = "some sectors of the new bytes, zeros for the others"
    ZERO_TAIL = "the new length, zeros for the new bytes"
    GARBAGE_TAIL = "the new length, garbage for the new bytes"
    RENAMED_EMPTY = "all names, but files never synced are empty"


class FileNode:
    """The bytes of a file, and those that a power cut leaves."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.was_synced = False
        self.modified_ms = 0
        self.reserved_bytes = 0
        self.is_linked = False

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.was_synced = True


class DirectoryNode:
    """The names in a directory, and those that a power cut leaves."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}


Node = FileNode | DirectoryNode


class SimulatedDisk:
    """Implements `Disk`. Every change is counted: `failures` and `crash_at` go by that count.

    `operations` counts what was done so far. `failures` maps the number of an operation to the
    errno it ends with, having done nothing. At operation `crash_at` the disk crashes: before it, or
    within it if it is an append. `capacity_bytes` bounds the sum of all files.
    """

    def __init__(self, seed: int = 0, capacity_bytes: int = UNBOUNDED_BYTES):
        self.root = DirectoryNode()
        self.random = Random(seed)
        self.capacity_bytes = capacity_bytes
        self.operations = 0
        self.log: list[str] = []
        self.failures: dict[int, int] = {}
        self.crash_at = -1
        self.now_ms = 0
        self.locks: set[str] = set()
        self.holds = 0

    def after_crash(self, outcome: Outcome, seed: int) -> SimulatedDisk:
        """The disk as the machine finds it after the crash."""
        disk = SimulatedDisk(seed, self.capacity_bytes)
        disk.root = _survivor(self.root, outcome, Random(seed))
        return disk

    def copy(self) -> SimulatedDisk:
        """The same files, everything synced."""
        return self.after_crash(Outcome.ALL_KEPT, 0)

    def files(self) -> dict[str, bytes]:
        """Every file by its path."""
        return dict(_files(self.root, ""))

    def create(self, path: str) -> SimulatedFile:
        self.operation(f"create {path}")
        directory, name = self._parent(path)
        if name in directory.entries:
            raise FileExistsError(errno.EEXIST, "exists", path)
        directory.entries[name] = self._new_file()
        return SimulatedFile(self, path, 0)

    def open(self, path: str, size_bytes: int) -> SimulatedFile:
        return SimulatedFile(self, path, size_bytes)

    def read(self, path: str) -> bytes:
        return bytes(self.file(path).data)

    def write(self, path: str, data: bytes) -> None:
        self._replace(path, data, synced=False)

    def write_new(self, path: str, data: bytes) -> None:
        self.create(path)
        self.operation(f"write {path}")
        self.require_space(len(data), path)
        self.file(path).data[:] = data

    def write_atomic(self, path: str, data: bytes) -> None:
        self._replace(path, data, synced=True)
        self.fsync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        try:
            self.node(path)
        except FileNotFoundError:
            return False
        return True

    def link(self, old: str, new: str) -> None:
        self.operation(f"link {old} {new}")
        node = self.file(old)
        directory, name = self._parent(new)
        if name in directory.entries:
            raise FileExistsError(errno.EEXIST, "exists", new)
        node.is_linked = True
        directory.entries[name] = node

    def copy_file(self, old: str, new: str, size_bytes: int) -> None:
        data = self.file(old).data[:size_bytes]
        if len(data) < size_bytes:
            raise OSError(errno.EIO, f"it ends at {len(data)}, not at {size_bytes}", old)
        self.write_new(new, bytes(data))

    def own_copy(self, path: str, size_bytes: int) -> FileNode:
        """Replace a linked file by a copy, as `RealFile` does before it changes the file."""
        node = self.file(path)
        if not node.is_linked and not self.holds:
            return node
        self._replace(path, bytes(node.data[:size_bytes]), synced=True)
        self.fsync_directory(os.path.dirname(path))
        return self.file(path)

    def rename(self, old: str, new: str) -> None:
        self.operation(f"rename {old} {new}")
        node = self.node(old)
        target, name = self._parent(new)
        replaced = target.entries.get(name)
        if isinstance(replaced, DirectoryNode) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        source, old_name = self._parent(old)
        del source.entries[old_name]
        target.entries[name] = node

    def unlink(self, path: str) -> None:
        self.operation(f"unlink {path}")
        self.file(path)
        directory, name = self._parent(path)
        del directory.entries[name]

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        directory = self.node(path)
        assert isinstance(directory, DirectoryNode)
        found = []
        for name in sorted(directory.entries, key=lambda _: self.random.random()):
            node = directory.entries[name]
            if isinstance(node, FileNode):
                found.append(DirectoryEntry(name, False, len(node.data), node.modified_ms))
            else:
                found.append(DirectoryEntry(name, True, 0, 0))
        return found

    def make_directory(self, path: str) -> None:
        self.operation(f"make_directory {path}")
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "exists", path)
        directory = self.root
        for name in _parts(path):
            child = directory.entries.setdefault(name, DirectoryNode())
            assert isinstance(child, DirectoryNode)
            directory = child

    def remove_tree(self, path: str) -> None:
        self.operation(f"remove_tree {path}")
        if self.exists(path):
            directory, name = self._parent(path)
            del directory.entries[name]

    def remove_files(self, path: str, most: int) -> int:
        if not self.exists(path):
            return 0
        names = [entry.name for entry in self.list_directory(path)]
        for name in names[:most]:
            self.unlink(f"{path}/{name}")
        if len(names) < most:
            self.remove_tree(path)
        return min(len(names), most)

    def fsync(self, path: str) -> None:
        self.operation(f"fsync {path}")
        self.file(path).sync()

    def fsync_directory(self, path: str) -> None:
        self.operation(f"fsync_directory {path}")
        directory = self.node(path)
        assert isinstance(directory, DirectoryNode)
        directory.synced = dict(directory.entries)

    def sync_all(self, path: str) -> None:
        self.operation(f"sync_all {path}")
        _sync_all(self.root)

    def lock(self, path: str) -> SimulatedLock:
        return SimulatedLock(self, path)

    def free_bytes(self, path: str) -> int:
        return self.capacity_bytes - sum(len(data) for _, data in _files(self.root, ""))

    def total_bytes(self, path: str) -> int:
        return self.capacity_bytes

    def operation(self, what: str) -> None:
        """Count a change, and fail or crash if that is due."""
        number = self.operations
        self.operations += 1
        self.log.append(what)
        if number == self.crash_at:
            raise Crash(what)
        if number in self.failures:
            code = self.failures[number]
            raise OSError(code, os.strerror(code), what)

    def appended(self, path: str, data: bytes) -> None:
        """Called after each append to a file."""

    def node(self, path: str) -> Node:
        node: Node = self.root
        for name in _parts(path):
            if not isinstance(node, DirectoryNode) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = node.entries[name]
        return node

    def file(self, path: str) -> FileNode:
        node = self.node(path)
        assert isinstance(node, FileNode), path
        return node

    def require_space(self, size_bytes: int, path: str) -> None:
        # Adding up the sizes of all files at every append would be slow.
        if self.capacity_bytes < UNBOUNDED_BYTES and self.free_bytes("/") < size_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _new_file(self) -> FileNode:
        node = FileNode()
        node.modified_ms = self.now_ms
        return node

    def _replace(self, path: str, data: bytes, *, synced: bool) -> None:
        temporary = path + ".tmp"
        self.operation(f"write {temporary}")
        self.require_space(len(data), path)
        directory, name = self._parent(temporary)
        node = directory.entries[name] = self._new_file()
        node.data[:] = data
        if synced:
            self.fsync(temporary)
        self.rename(temporary, path)

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        directory = self.node(above)
        assert isinstance(directory, DirectoryNode)
        return directory, name


class SimulatedFile:
    """Implements `File`."""

    def __init__(self, disk: SimulatedDisk, path: str, size_bytes: int):
        self._disk = disk
        self.path = path
        self.size_bytes = size_bytes
        self._node: FileNode | None = None

    def append(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        data = b"".join(buffers)
        assert len(data) == size_bytes
        node = self._opened()
        if node.is_linked:
            node = self._node = self._disk.own_copy(self.path, self.size_bytes)
        assert len(node.data) == self.size_bytes, "someone else wrote to the file"
        try:
            self._disk.operation(f"append {self.path} {size_bytes}")
        except Crash:
            node.data += data[: self._disk.random.randint(0, size_bytes)]
            raise
        self._disk.require_space(size_bytes, self.path)
        node.data += data
        node.modified_ms = self._disk.now_ms
        self.size_bytes += size_bytes
        self._disk.appended(self.path, data)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return bytes(self._opened().data[position : position + size_bytes])

    def fsync(self) -> None:
        self._disk.fsync(self.path)

    def truncate(self, size_bytes: int) -> None:
        if self._opened().is_linked or self._disk.holds:
            self._node = self._disk.own_copy(self.path, size_bytes)
        self._disk.operation(f"truncate {self.path} {size_bytes}")
        node = self._opened()
        del node.data[size_bytes:]
        node.reserved_bytes = 0
        self.size_bytes = size_bytes

    def preallocate(self, size_bytes: int) -> None:
        self._opened().reserved_bytes = size_bytes

    def rename(self, path: str) -> None:
        self._opened()
        self._disk.rename(self.path, path)
        self.path = path

    def moved(self, path: str) -> None:
        self.path = path

    def delete(self) -> None:
        self._opened()
        self._disk.unlink(self.path)

    def close(self) -> None:
        self._node = None

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a simulated file has no descriptor")

    def _opened(self) -> FileNode:
        if self._node is None:
            self._node = self._disk.file(self.path)
        return self._node


class SimulatedLock:
    """Implements `Lock`."""

    def __init__(self, disk: SimulatedDisk, path: str):
        if path in disk.locks:
            raise DirectoryLocked(path)
        disk.locks.add(path)
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


def _survivor(directory: DirectoryNode, outcome: Outcome, random: Random) -> DirectoryNode:
    left = DirectoryNode()
    names = directory.synced if outcome is Outcome.UNSYNCED_LOST else directory.entries
    for name, node in names.items():
        if isinstance(node, DirectoryNode):
            left.entries[name] = _survivor(node, outcome, random)
        else:
            survivor = FileNode()
            survivor.modified_ms = node.modified_ms
            survivor.data[:] = _surviving_bytes(node, outcome, random)
            survivor.sync()
            left.entries[name] = survivor
    left.synced = dict(left.entries)
    return left


def _surviving_bytes(node: FileNode, outcome: Outcome, random: Random) -> bytes:
    data = bytes(node.data)
    # Files are appended to or replaced completely, so unsynced bytes are at the end.
    common = min(len(node.synced), len(data))
    fresh = len(data) - common
    match outcome:
        case Outcome.ALL_KEPT:
            return data
        case Outcome.UNSYNCED_LOST:
            return node.synced
        case Outcome.PREFIX:
            return data[: common + random.randint(0, fresh)]
        case Outcome.SECTORS:
            return data[:common] + _some_sectors(data, common, random)
        case Outcome.ZERO_TAIL:
            return data[:common] + bytes(fresh)
        case Outcome.GARBAGE_TAIL:
            return data[:common] + random.randbytes(fresh)
        case Outcome.RENAMED_EMPTY:
            return data if node.was_synced else b""


def _some_sectors(data: bytes, start: int, random: Random) -> bytes:
    kept = bytearray()
    position = start
    while position < len(data):
        end = min(position - position % SECTOR_BYTES + SECTOR_BYTES, len(data))
        kept += data[position:end] if random.random() < 0.5 else bytes(end - position)
        position = end
    return bytes(kept)


def _sync_all(directory: DirectoryNode) -> None:
    directory.synced = dict(directory.entries)
    for node in directory.entries.values():
        if isinstance(node, FileNode):
            node.sync()
        else:
            _sync_all(node)


def _files(directory: DirectoryNode, path: str) -> Iterator[tuple[str, bytes]]:
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, FileNode):
            yield f"{path}/{name}", bytes(node.data)
        else:
            yield from _files(node, f"{path}/{name}")


@lru_cache(10_000)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
