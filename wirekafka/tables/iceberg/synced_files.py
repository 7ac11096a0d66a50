"""Files of tables in a directory that are on the medium before the catalog names them.

SQLite syncs its file at each commit; without the same for data and metadata, a power cut would
leave a catalog that names files without content.
"""

from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, cast

from pyarrow.fs import FileSystem
from pyiceberg.io import WAREHOUSE, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from wirekafka.log.files import RealDisk

_BUFFER_BYTES = 1 << 20


class SyncedFileIO(PyArrowFileIO):
    """pyiceberg's files by pyarrow; local ones are synced when they are closed."""

    def __init__(self, properties: Properties = EMPTY_DICT):
        super().__init__(properties)
        _, _, warehouse = self.parse_location(properties.get(WAREHOUSE, "/"), properties)
        self._names = _Names(PurePosixPath(warehouse))

    def new_output(self, location: str) -> PyArrowFile:
        """A file to be written."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _SyncedFile(
            self._names,
            fs=self.fs_by_scheme(scheme, netloc),
            location=location,
            path=path,
            buffer_size=_BUFFER_BYTES,
        )


class _Names:
    """Syncs directories, so that the names of files below a directory are on the medium."""

    def __init__(self, top: PurePosixPath):
        self._top = top
        self._known: set[PurePosixPath] = set()

    def sync(self, path: PurePosixPath) -> None:
        disk = RealDisk()
        for directory in path.parents:
            disk.fsync_directory(str(directory))
            if directory in self._known or self._top not in directory.parents:
                break
        self._known.update(path.parents)


class _SyncedFile(PyArrowFile):
    def __init__(
        self, names: _Names, *, fs: FileSystem, location: str, path: str, buffer_size: int
    ):
        super().__init__(fs=fs, location=location, path=path, buffer_size=buffer_size)
        self._names = names
        self._local_path = path

    def create(self, overwrite: bool = False) -> OutputStream:
        stream = _SyncedStream(super().create(overwrite), self._local_path, self._names)
        return cast(OutputStream, stream)


class _SyncedStream:
    """A stream that syncs its file, and the names on the way to it, when it is closed."""

    def __init__(self, stream: OutputStream, path: str, names: _Names):
        self._stream = stream
        self._path = path
        self._names = names
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, data: bytes) -> int:
        return self._stream.write(data)

    def flush(self) -> None:
        """Nothing: `close` writes what is buffered."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._stream.close()
        RealDisk().fsync(self._path)
        self._names.sync(PurePosixPath(self._path))

    def __enter__(self) -> "_SyncedStream":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
