"""The memory of requests that are not served yet, as far as options limit it.

Kafka reads a request into memory that it reserves for the whole request
(`queued.max.request.bytes`), and then queues the request (`queued.max.requests`). Here a request is
served as soon as it is read. Memory is taken by incomplete requests, by requests that wait for a
response, and by the bytes that their clients have sent behind them. A limit holds back connections
that begin a request, never connections within a request: each request can be completed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from wirekafka.config.options import BROKER
from wirekafka.server.connections.connection import Connection, ConnectionOwner
from wirekafka.server.connections.inbox import request_bytes

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

_HELD_BACK_BYTES = 1 << 12
"""How much a connection reads of a request that may be held back."""


class RequestMemory:
    """The bytes and requests that connections have reserved, within the limits."""

    def __init__(self, limit_bytes: float, limit_requests: float):
        self.limit_bytes, self.limit_requests = limit_bytes, limit_requests
        self.used_bytes = 0
        self._reserved: dict[Connection, int] = {}
        self._waiting: dict[LimitedConnection, None] = {}

    @classmethod
    def of(cls, config: BrokerConfig) -> RequestMemory | None:
        """The limits in a configuration; None where no option sets one."""
        limit_bytes = config.queued_max_request_bytes
        limit_requests: float = config.queued_max_requests
        if limit_requests == BROKER["queued.max.requests"].default:
            # Kafka's default is the length of a queue that does not exist here.
            limit_requests = float("inf")
        if limit_bytes <= 0 and limit_requests == float("inf"):
            return None
        return cls(limit_bytes if limit_bytes > 0 else float("inf"), limit_requests)

    @property
    def is_exhausted(self) -> bool:
        """Whether no further request may begin; the last may exceed the limit, as in Kafka."""
        return self.used_bytes >= self.limit_bytes or len(self._reserved) >= self.limit_requests

    @property
    def waiting(self) -> int:
        """How many connections are held back."""
        return len(self._waiting)

    def is_reserved(self, connection: Connection) -> bool:
        """Whether the connection has a request already."""
        return connection in self._reserved

    def reserve(self, connection: Connection, size_bytes: int) -> None:
        """Change the bytes that a connection reserves; 0 ends its reservation."""
        before = self._reserved.pop(connection, 0)
        if size_bytes:
            self._reserved[connection] = size_bytes
        self.used_bytes += size_bytes - before
        while self._waiting and size_bytes < before and not self.is_exhausted:
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.read_on()

    def wait(self, connection: LimitedConnection) -> None:
        """Let the connection read on when there is memory again, in the order of these calls."""
        self._waiting[connection] = None

    def forget(self, connection: LimitedConnection) -> None:
        """Free the reservation of a closed connection."""
        self._waiting.pop(connection, None)
        self.reserve(connection, 0)


class LimitedOwner(ConnectionOwner, Protocol):
    """A listener whose requests have limited memory."""

    memory: RequestMemory | None


class LimitedConnection(Connection):
    """Replaces `Connection` where memory is limited."""

    def __init__(self, listener: LimitedOwner):
        super().__init__(listener)
        assert listener.memory is not None
        self._memory = listener.memory

    def get_buffer(self, sizehint: int) -> Any:
        buffer = super().get_buffer(sizehint)
        return buffer[:_HELD_BACK_BYTES] if self._own is None and self._must_wait else buffer

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._memory.forget(self)

    def release_memory(self) -> None:
        super().release_memory()
        self._memory.reserve(self, self._needed_bytes)

    def read_on(self) -> None:
        """Go on: there is memory again."""
        self._make_room()

    @property
    def _must_wait(self) -> bool:
        return self._memory.is_exhausted and not self._memory.is_reserved(self)

    @property
    def _needed_bytes(self) -> int:
        own = self._own
        if own is None:
            return self._parked_bytes
        frame = request_bytes(own, self._start, self._end)
        return self._parked_bytes + max(len(own), min(frame, self._limit + 4))

    def _hand_over_buffer(self, data: memoryview, at: int, end: int) -> int:
        rest = super()._hand_over_buffer(data, at, end)
        self._memory.reserve(self, self._needed_bytes)
        return rest

    def _make_room(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._start == self._end:
            # Others keep an empty buffer for their next request.
            self.release_memory()
        if self._own is not None and self._must_wait:
            self._memory.wait(self)
            if not self._reading_paused:
                self._reading_paused = True
                transport.pause_reading()
            return
        self._memory.reserve(self, self._needed_bytes)
        super()._make_room()
