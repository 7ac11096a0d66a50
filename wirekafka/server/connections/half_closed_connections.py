"""The connections that are kept after their clients' last byte, until it has been served."""

from __future__ import annotations

MOST_CONNECTIONS = 32
MOST_BYTES = 32 << 20


class HalfClosed:
    """Bounds the memory of clients that have ended their side of a connection.

    The requests that such a client sent before still count: a producer with acks=0 closes its
    connection without waiting for anything. But clients that send large batches and leave, again
    and again, must not make the broker keep any number of such connections.
    """

    def __init__(self) -> None:
        self._kept: dict[object, int] = {}
        self._bytes = 0

    def keep(self, connection: object, size_bytes: int) -> bool:
        """Keep a connection whose unserved requests take so many bytes; False if it must close."""
        if connection in self._kept:
            return True
        is_full = len(self._kept) >= MOST_CONNECTIONS or self._bytes + size_bytes > MOST_BYTES
        if self._kept and is_full:
            return False  # One alone may be of any size that a request may have.
        self._kept[connection] = size_bytes
        self._bytes += size_bytes
        return True

    def forget(self, connection: object) -> None:
        """Stop counting a connection that is served or closed."""
        self._bytes -= self._kept.pop(connection, 0)

    def __len__(self) -> int:
        return len(self._kept)
