"""The search for planted secrets in all that nodes write: responses, logs and files."""

from __future__ import annotations

import base64
import logging
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.planted_secrets import MARK
from wirekafka.server.connections.connection import Connection
from wirekafka.server.connections.replies import Replies
from wirekafka.server.json_logs import JsonFormatter

_PRIVATE_KEY = b"PRIVATE KEY-----"
"""The end of the first line of a private key in PEM."""


def _encodings(mark: str) -> Iterator[bytes]:
    """The bytes by which a text with the mark in it is recognized, however it was encoded."""
    plain = mark.encode()
    yield plain
    yield mark.encode("utf-16-le")
    yield plain.hex().encode()
    yield plain.hex().upper().encode()
    for before in range(3):
        # Base64 encodes groups of three bytes: only whole groups of the mark are always the same.
        whole = len(plain) - (before + len(plain)) % 3
        encoded = base64.b64encode(bytes(before) + plain[:whole])
        yield encoded[-(-before * 4 // 3) :] if before else encoded


class SecretSearch:
    """Looks for planted secrets, for private keys, and for secrets that a node has generated."""

    def __init__(self) -> None:
        self._wanted = [*_encodings(MARK), _PRIVATE_KEY]
        self.leaks: list[str] = []
        """The secrets that `look` has found, with their places."""

    def add(self, secret: str) -> None:
        """Look for this secret too."""
        self._wanted.extend(_encodings(secret))

    def excerpt(self, data: bytes | bytearray | memoryview) -> str:
        """The neighbourhood of the first secret in the data; empty if there is none."""
        data = bytes(data)
        for wanted in self._wanted:
            at = data.find(wanted)
            if at >= 0:
                return repr(data[max(0, at - 100) : at + len(wanted) + 40])
        return ""

    def look(self, data: bytes | bytearray | memoryview, place: str) -> None:
        """Note a leak if there is a secret in the data, which a node wrote to `place`."""
        if found := self.excerpt(data):
            self.leaks.append(f"a secret in {place}: {found}")

    def look_into_logs_of_partitions(self, directory: Path) -> None:
        """Search the files of nodes below a directory.

        The metadata log is left out: it has the options that were set while a node was running,
        passwords among them, as in Kafka.
        """
        for formatted in directory.rglob("meta.properties"):
            for path in formatted.parent.rglob("*"):
                if path.is_file() and not path.parent.name.startswith("__cluster_metadata"):
                    self.look(path.read_bytes(), str(path))


class LogSearch(logging.Handler):
    """Looks for secrets in every log line, in each format in which nodes write logs."""

    def __init__(self, search: SecretSearch):
        super().__init__(logging.DEBUG)
        self._search = search
        self._formatters = (logging.Formatter(), JsonFormatter())
        self.tracebacks: list[str] = []
        """The errors that were logged with a traceback."""
        self.is_paused = False
        self.spent_s = 0.0
        """The processor time of the search, which is no work of the node."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_paused:
            return
        began = time.thread_time()
        for formatter in self._formatters:
            text = formatter.format(record)
            self._search.look(text.encode(errors="surrogatepass"), f"the log of {record.name}")
        if record.levelno >= logging.ERROR and record.exc_info:
            self.tracebacks.append(text)
        self.spent_s += time.thread_time() - began


@contextmanager
def searched_logs(search: SecretSearch) -> Iterator[LogSearch]:
    """Search what is logged in this process, beside the handlers that are there."""
    root = logging.getLogger()
    handler = LogSearch(search)
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)


@contextmanager
def all_logs_searched(search: SecretSearch) -> Iterator[LogSearch]:
    """Search all that is logged in this process, at every level, and keep none of it."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    root.setLevel(logging.DEBUG)
    try:
        with searched_logs(search) as handler:
            yield handler
    finally:
        root.handlers = handlers
        root.setLevel(level)


def search_responses(search: SecretSearch, patch: pytest.MonkeyPatch) -> None:
    """Search all that nodes of this process send to clients, before TLS encrypts it."""
    send = Connection._send

    def searched(connection: Connection, replies: Replies) -> None:
        for chunk in (*replies.buffers, replies.tail):
            if isinstance(chunk, bytes | bytearray | memoryview):
                search.look(chunk, "a response")
        send(connection, replies)

    patch.setattr(Connection, "_send", searched)


def search_processes(search: SecretSearch, patch: pytest.MonkeyPatch) -> None:
    """Search what processes that the test starts write to their standard error: the logs."""
    communicate = subprocess.Popen.communicate

    def searched(process: Any, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        printed, errors = communicate(process, *arguments, **options)
        if errors:
            data = errors.encode() if isinstance(errors, str) else errors
            search.look(data, f"the log of {process.args}")
        return printed, errors

    patch.setattr(subprocess.Popen, "communicate", searched)
