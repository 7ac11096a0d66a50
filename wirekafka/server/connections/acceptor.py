"""Admits new connections one after the other: above some limits they wait, as in Kafka."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, cast

from wirekafka.clock import Timer
from wirekafka.config.address import java_text
from wirekafka.server.connections.admission import ConnectionLimits, Member

if TYPE_CHECKING:
    from wirekafka.apis.shared.host import Host

_EARLY_BYTES = 1 << 12
"""How much is read of a connection that waits: uvloop cannot pause it before the first read."""
_MOST_HELD = 1024
"""How many connections of a listener may wait, and how many throttled connections may stay open.
Kafka leaves waiting connections to the operating system, whose backlog is as long here."""


class AcceptorOwner(Member, Protocol):
    """The listener, as its acceptor sees it."""

    broker: Host | None

    def new_protocol(self) -> asyncio.BufferedProtocol:
        """Create the protocol of an admitted connection, which counts it against the limits."""

    def warn(self, host: str, kind: str, message: str) -> None:
        """Log a warning about a host, unless one of the same kind was logged recently."""


class Arrival(asyncio.BufferedProtocol):
    """A connection that is not admitted yet: it is not served, and hardly read."""

    __slots__ = ("_acceptor", "_buffer", "early", "transport")

    def __init__(self, acceptor: Acceptor):
        self._acceptor = acceptor
        self._buffer = bytearray()
        self.early: bytes | memoryview = b""
        """The bytes read before reading was paused."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._acceptor.arrived(self)

    def get_buffer(self, sizehint: int) -> Any:
        self._buffer = bytearray(_EARLY_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.early = memoryview(self._buffer)[:nbytes]
        self.transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def become(self, protocol: asyncio.BufferedProtocol) -> None:
        """Continue as the given protocol, which also gets the bytes read so far."""
        transport, early = self.transport, self.early
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if not early or transport.is_closing():
            return
        buffer: Any = protocol.get_buffer(len(early))
        assert len(buffer) >= len(early), "a new connection has an empty buffer"
        buffer[: len(early)] = early
        transport.resume_reading()
        protocol.buffer_updated(len(early))


class Acceptor:
    """Admits the connections of one listener one after the other.

    The next connection waits while there is no slot (max.connections) and for as long as
    max.connection.creation.rate demands; the connections behind it wait too, without being counted
    yet. A connection that exceeds the connection_creation_rate of its address is closed after its
    throttle time.
    """

    def __init__(self, owner: AcceptorOwner, limits: ConnectionLimits):
        self._owner = owner
        self._limits = limits
        self._queue: deque[Arrival] = deque()
        self._is_counted = False
        """Whether the next connection is counted as an attempt."""
        self._throttle: Timer | None = None
        """Until it fires, no connection is accepted."""
        self._throttled: dict[Arrival, Timer] = {}
        self._is_due = False

    @property
    def waiting(self) -> int:
        """How many connections wait."""
        return len(self._queue)

    def arrived(self, arrival: Arrival) -> None:
        """Admit a new connection, or let it wait."""
        if len(self._queue) >= _MOST_HELD:
            self._owner.warn(
                _host(arrival), "too many wait", "Refusing a connection: too many wait"
            )
            arrival.transport.abort()
            return
        self._queue.append(arrival)
        if len(self._queue) == 1:
            self._admit_next()

    def slot_freed(self) -> None:
        """Admit the next connection soon, if there is a slot for it now."""
        if self._queue and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._due)

    def stop(self) -> None:
        """Close the connections that are not admitted."""
        for arrival in (*self._queue, *self._throttled):
            arrival.transport.abort()
        for timer in self._throttled.values():
            timer.cancel()
        if self._throttle is not None:
            self._throttle.cancel()
        self._queue.clear()
        self._throttled.clear()
        self._throttle, self._is_counted = None, False
        self._limits.waiting.discard(self._owner)

    def _due(self) -> None:
        self._is_due = False
        if self._queue:
            self._admit_next()

    def _throttle_over(self) -> None:
        self._throttle = None
        self._due()

    def _admit_next(self) -> None:
        broker, name = self._owner.broker, self._owner.name
        if broker is None:
            self._queue.popleft().transport.abort()
            return
        if not self._is_counted:
            self._is_counted = True
            throttle_ms = self._limits.count_attempt(name, broker.config, broker.clock.now_ms())
            if throttle_ms:
                self._throttle = broker.clock.call_later(throttle_ms, self._throttle_over)
        if self._throttle is not None:
            return
        reached = self._limits.reached(name, broker.config)
        if reached is not None:
            self._limits.waiting.add(self._owner)
            host = _host(self._queue[0])
            self._owner.warn(host, "no slot", f"New connections wait: {reached} is reached")
            return
        arrival = self._queue.popleft()
        self._is_counted = False
        if self._queue:
            self.slot_freed()
        else:
            self._limits.waiting.discard(self._owner)
        if not arrival.transport.is_closing():
            self._admit(arrival, broker)

    def _admit(self, arrival: Arrival, broker: Host) -> None:
        host, now_ms = _host(arrival), broker.clock.now_ms()
        throttle_ms = broker.stored_quotas.addresses.throttle_ms(host, now_ms)
        if not throttle_ms:
            arrival.become(self._owner.new_protocol())
            return
        self._limits.uncount_attempt(self._owner.name, broker.config, now_ms)
        message = f"Closing connections of {host}: its connection_creation_rate is exceeded"
        self._owner.warn(host, "connection_creation_rate is exceeded", message)
        if len(self._throttled) >= _MOST_HELD:
            arrival.transport.abort()
            return

        def close() -> None:
            del self._throttled[arrival]
            arrival.transport.abort()

        self._throttled[arrival] = broker.clock.call_later(throttle_ms, close)


def _host(arrival: Arrival) -> str:
    return client_of(arrival.transport)[0]


def client_of(transport: asyncio.Transport) -> tuple[str, int]:
    """The address and port of a connection's client."""
    peer = transport.get_extra_info("peername")
    return (host_of(peer), peer[1]) if peer is not None else ("", 0)


def host_of(name: tuple[Any, ...]) -> str:
    """The host in a socket's address, as Kafka reports it and compares it with ACLs."""
    return java_text(name[0], name[3] if len(name) > 3 else 0)
