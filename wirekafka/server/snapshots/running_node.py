"""The instant of a node that runs on this machine, asked for at its local socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from wirekafka.snapshot.instant import IncompleteInstant, Instant, instant_from
from wirekafka.snapshot.manifest import UnusableSnapshot
from wirekafka.snapshot.socket_name import SNAPSHOT_SOCKET

_TIMEOUT_S = 60.0


class HeldNode:
    """A running node whose files are kept until `release`."""

    def __init__(self, instant: Instant, connection: socket.socket):
        self.instant = instant
        self._connection = connection

    def release(self) -> None:
        """Let the node delete files again."""
        self._connection.close()


@contextmanager
def running_node(directory: str) -> Iterator[HeldNode | None]:
    """Hold the node that uses a log directory, its first; None if no node listens there.

    Raises UnusableSnapshot if the node has no instant to give, OSError.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            _connect(connection, directory)
        except (FileNotFoundError, ConnectionRefusedError):
            yield None
            return
        with connection.makefile("rb") as lines:
            try:
                instant = instant_from(lines)
            except IncompleteInstant as error:
                raise UnusableSnapshot(f"{directory}: {error}") from None
        yield HeldNode(instant, connection)


def _connect(connection: socket.socket, directory: str) -> None:
    """Connect by a short name: the path of a socket may have about a hundred characters."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.path.isdir(f"/proc/self/fd/{opened}"):
            connection.connect(f"/proc/self/fd/{opened}/{SNAPSHOT_SOCKET}")
        else:
            connection.connect(os.path.join(directory, SNAPSHOT_SOCKET))
    finally:
        os.close(opened)
