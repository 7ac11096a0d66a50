"""Places of an append where a process can die, found by what it does to files and the catalog."""

import os
import signal
from collections import Counter
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from sqlalchemy import event
from sqlalchemy.engine import Engine

_KINDS = {".parquet": "data", ".metadata.json": "metadata", ".avro": "manifest"}
_PHASES = ("create", "write", "close", "closed")

SITES = (
    *(
        f"{phase} {kind}"
        for kind in ("data", "manifest", "manifest list", "metadata")
        for phase in _PHASES
    ),
    "execute update",
    "commit update",
    "committed update",
    "delete metadata",
    "appended",
)
"""`create`, `write` and `close`: before it, or amid it. `closed` and `committed`: after it."""


class Crash:
    """Kills this process, as `kill -9` does, at the nth time that it comes to a site."""

    def __init__(self, site: str, occurrence: int):
        self._site = site
        self._occurrence = occurrence
        self._seen: Counter[str] = Counter()

    def at(self, site: str) -> None:
        self._seen[site] += 1
        if site == self._site and self._seen[site] == self._occurrence:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Hook what writes files and the catalog's statements, for the rest of this process."""
        create, delete = PyArrowFile.create, PyArrowFileIO.delete
        crash = self

        def create_hooked(self: PyArrowFile, overwrite: bool = False) -> Any:
            kind = _kind(self.location)
            crash.at(f"create {kind}")
            return _Stream(create(self, overwrite), kind, crash)

        def delete_hooked(self: PyArrowFileIO, location: Any) -> None:
            crash.at(f"delete {_kind(str(location))}")
            delete(self, location)

        PyArrowFile.create = create_hooked
        PyArrowFileIO.delete = delete_hooked
        event.listen(Engine, "before_cursor_execute", self._before_execute)
        event.listen(Engine, "commit", lambda connection: self.at("commit update"))

    def _before_execute(self, connection, cursor, statement, *_) -> None:
        if statement.startswith("UPDATE"):
            self.at("execute update")
            connection.connection.dbapi_connection = _Committing(
                connection.connection.dbapi_connection, self
            )


class _Committing:
    """A connection of SQLite that reports when its commit is done."""

    def __init__(self, connection: Any, crash: Crash):
        self._connection = connection
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        self._connection.commit()
        self._crash.at("committed update")


class _Stream:
    """A file that is being written; half of the bytes of its first write are there at `write`."""

    def __init__(self, stream: Any, kind: str, crash: Crash):
        self._stream = stream
        self._kind = kind
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def write(self, data: Any) -> int:
        view = memoryview(data)
        half = len(view) // 2
        self._stream.write(view[:half])
        self._crash.at(f"write {self._kind}")
        self._stream.write(view[half:])
        return len(view)

    def close(self) -> None:
        if self._stream.closed:
            return
        self._crash.at(f"close {self._kind}")
        self._stream.close()
        self._crash.at(f"closed {self._kind}")


def _kind(location: str) -> str:
    name = location.rpartition("/")[2]
    if name.startswith("snap-"):
        return "manifest list"
    return next(kind for suffix, kind in _KINDS.items() if name.endswith(suffix))
