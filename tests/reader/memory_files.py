"""Files in memory, to be read: damaged a thousand times without writing any."""

from __future__ import annotations

from pathlib import Path

from wirekafka.log.files import DirectoryEntry


class MemoryFiles:
    """The files of a directory, by their paths within it; a `ReadableDisk`."""

    def __init__(self, root: Path):
        self.root = str(root)
        self.files = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        found = {}
        for name, data in self.files.items():
            if name.startswith(path + "/"):
                head, _, rest = name.removeprefix(path + "/").partition("/")
                found[head] = DirectoryEntry(head, bool(rest), 0 if rest else len(data), 0)
        if not found:
            raise FileNotFoundError(path)
        return list(found.values())

    def open_to_read(self, path: str) -> MemoryFile:
        return MemoryFile(path, self.read(path))


class MemoryFile:
    def __init__(self, path: str, data: bytes):
        self.path = path
        self.size_bytes = len(data)
        self.identity = (hash(path), 0)
        self._data = data

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self._data[position : position + size_bytes]

    def close(self) -> None:
        """Nothing to release."""
