"""A named listener: its address, its connections, and the limits on their number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.host import Host
from wirekafka.config.address import Address
from wirekafka.config.endpoints import listeners as addresses
from wirekafka.config.security_protocol import logs_in
from wirekafka.server.connections.acceptor import Acceptor, Arrival, client_of, host_of
from wirekafka.server.connections.admission import Admission, ConnectionLimits
from wirekafka.server.connections.authentications import Authentications
from wirekafka.server.connections.connection import Connection
from wirekafka.server.connections.logins import Logins
from wirekafka.server.connections.pipeline import Serve
from wirekafka.server.connections.repeated_warnings import Occasion
from wirekafka.server.connections.request_memory import LimitedConnection, LimitedOwner
from wirekafka.server.net import Port

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

ADMISSION, PRINCIPAL = "wirekafka.admission", "wirekafka.principal"
"""Additional names for `get_extra_info` of the transport of a TLS connection."""

SWEPT_AT_ONCE = 200
"""How many connections are checked, and perhaps closed, in one turn of the event loop."""
_FRAME_GRACE_MS = 30_000
_FRAME_BYTES_PER_MS = 4


class Encryption(Protocol):
    """The TLS of a listener."""

    def link(self) -> asyncio.BufferedProtocol:
        """Create the protocol of a new connection, which begins with a handshake."""

    def start(self, config: BrokerConfig) -> None:
        """Use the dynamic settings too, before the first connection."""

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if a new configuration cannot be used; called in a thread."""

    def configured(self, config: BrokerConfig) -> None:
        """Use the certificates of a new dynamic configuration."""

    def sweep(self, now_ms: int) -> Iterator[None]:
        """Close connections whose handshake takes too long; yields after some of them."""

    def abort(self) -> None:
        """Close connections whose handshake is not complete."""


class Listener:
    """Accepts and tracks the connections of one named listener."""

    def __init__(self, name: str, port: Port, limits: ConnectionLimits):
        self.name = name
        self.address = port.address
        """The host and port that are bound."""
        self.tls: Encryption | None = None
        """Set before `start` if connections are encrypted."""
        self.closed: Callable[[str], None] = _ignore
        """Called with the `Connection.peer` of each closed connection."""
        self.memory = limits.memory
        self.connection: Callable[[LimitedOwner], Connection] = (
            Connection if self.memory is None else LimitedConnection
        )
        """Creates the protocol of a connection; set before `start`."""
        self.inbox = limits.inbox
        self.half_closed = limits.half_closed
        self.serve: Serve = limits.pipeline.serve
        self._logins: Logins | None = None
        self.warnings = limits.pipeline.warnings
        self.request_limit_bytes = 0
        self._port = port
        self._limits = limits
        limits.members.append(self)
        self._acceptor = Acceptor(self, limits)
        self.broker: Host | None = None
        self._connections: dict[Connection, str] = {}
        self._emptied: asyncio.Future[None] | None = None
        self.is_closed = False
        """Whether new connections are refused."""
        self.authentications = Authentications()
        self.accepted = 0
        """How many connections were accepted since the start."""

    @property
    def connections(self) -> int:
        return len(self._connections)

    def software(self) -> Iterator[tuple[str, str]]:
        """The name and version of the software of each client that is connected (KIP-511)."""
        return (connection.software for connection in tuple(self._connections))

    async def prepare(self, broker: Host) -> None:
        """Read the settings of logins, and fetch keys for them. Raises ConfigError."""
        if self._logins is None and _needs_login(self.name, broker.config):
            self._logins = Logins(broker, self.name, self._limits.pipeline, self.authentications)
            await self._logins.start()

    async def start(self, broker: Host) -> None:
        """Accept connections and serve them from `broker`. Raises ConfigError."""
        await self.prepare(broker)
        if self.broker is None:
            # Dynamic settings may have been read since; they change nothing later (KIP-226).
            if self._logins is not None:
                await self._logins.configured()
            if self.tls is not None:
                self.tls.start(broker.config)
        self.broker = broker
        self.request_limit_bytes = broker.config.socket_request_max_bytes
        await self._port.accept(lambda: Arrival(self._acceptor))

    def new_protocol(self) -> asyncio.BufferedProtocol:
        """Create the protocol of an admitted connection."""
        return self.connection(self) if self.tls is None else self.tls.link()

    def accept(self, connection: Connection, transport: asyncio.Transport) -> Call | None:
        """Register a connection and return its context; None if a limit refuses it."""
        # A TLS connection was admitted before its handshake.
        admission = transport.get_extra_info(ADMISSION) or self.admit(transport)
        if admission is None or self.broker is None:
            return None
        host, port, serial = admission
        self._connections[connection] = host
        self.accepted += 1
        local = transport.get_extra_info("sockname")
        connection_id = f"{host_of(local)}:{local[1]}-{host}:{port}-{serial}"
        call = Call(
            self.broker,
            client_host=f"/{host}",
            connection_id=connection_id,
            listener=self.name,
            is_for_controllers=self._limits.pipeline.is_for_controllers,
        )
        principal = transport.get_extra_info(PRINCIPAL)
        if self._logins is not None:
            self._logins.guard(connection, call)
        elif principal is not None:
            call.authenticated(principal)
            self.authentications.successes += 1
            self.authentications.without_renewal += 1
        return call

    def admit(self, transport: asyncio.Transport) -> Admission | None:
        """Count a new connection; None if a limit refuses it, which is logged."""
        host, port = client_of(transport)
        if not host or self.broker is None:
            return None
        refusal = self._limits.refusal(host, self.broker.config)
        if refusal is not None:
            self.warn(host, "Refusing a connection", f"Refusing {Address(host, port)}: {refusal}")
            return None
        admission = Admission(host, port, self._limits.enter(host, self.name))
        self._limits.shed(self.broker.config)
        return admission

    def established(self) -> Iterable[Connection]:
        """The connections, without connections in a TLS handshake."""
        return self._connections

    @property
    def waiting(self) -> int:
        """How many connections wait to be admitted."""
        return self._acceptor.waiting

    def slot_freed(self) -> None:
        """Admit a connection that waits; called when one was closed or a limit has changed."""
        self._acceptor.slot_freed()

    def warn(self, host: str, kind: str, message: str) -> None:
        """Log a warning about a host, unless one of the same kind was logged recently."""
        if self.broker is not None:
            occasion = Occasion(f"/{host}", kind, self.broker.clock.now_ms())
            self.warnings.log(logging.WARNING, occasion, message)

    def forget(self, connection: Connection) -> None:
        """Unregister a closed connection."""
        host = self._connections.pop(connection, None)
        if host is None:
            return
        self.closed(connection.peer)
        self.release(host)

    def release(self, host: str) -> None:
        """Uncount a connection that `admit` has counted."""
        self._limits.leave(host, self.name)
        if not self._connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def review(self) -> None:
        """Apply limits that were changed; called periodically."""
        if self.broker is not None:
            self._limits.review(self.broker.config)

    def sweep(self, now_ms: int) -> None:
        """Close connections that are idle or send a request too slowly; called periodically."""
        for _ in self.sweep_in_steps(now_ms):
            pass

    def sweep_in_steps(self, now_ms: int) -> Iterator[None]:
        """Do as `sweep`, and yield after some connections, so that requests can be served."""
        if self.broker is None:
            return
        idle_ms = self._limits.current(self.broker.config).idle_ms
        for number, connection in enumerate(tuple(self._connections), 1):
            if number % SWEPT_AT_ONCE == 0:
                yield
            if connection.last_read != connection.last_read_seen:
                connection.last_read_seen = connection.last_read
                connection.idle_since_ms = now_ms
            elif connection.is_parked:
                connection.idle_since_ms = now_ms
            elif 0 <= idle_ms <= now_ms - connection.idle_since_ms:
                connection.close()
                continue
            else:
                connection.release_memory()
            self._check_frame(connection, now_ms)
        if self.tls is not None:
            yield from self.tls.sweep(now_ms)
        self.warnings.sweep(now_ms)

    def _check_frame(self, connection: Connection, now_ms: int) -> None:
        """Close a connection whose request takes over 30 s, plus 1 ms per 4 bytes, to arrive."""
        if not connection.frame_bytes or connection.frames != connection.frames_seen:
            connection.frames_seen = connection.frames
            connection.frame_since_ms = now_ms
            return
        allowed_ms = _FRAME_GRACE_MS + connection.frame_bytes // _FRAME_BYTES_PER_MS
        if now_ms - connection.frame_since_ms > allowed_ms:
            connection.close_for("a slow request", "its request takes too long to arrive")

    def stop_accepting(self) -> None:
        """Refuse new and waiting connections; established connections go on."""
        self.is_closed = True
        self._port.close()
        self._acceptor.stop()
        if self._logins is not None:
            self._logins.stop()

    async def reopen(self, port: Port, broker: Host) -> None:
        """Accept connections again, at a newly bound port."""
        self._port = port
        self.is_closed = False
        await self.start(broker)

    def drain(self) -> None:
        """Close every connection once the response of its current request is sent."""
        if self.tls is not None:
            self.tls.abort()
        for connection in tuple(self._connections):
            connection.drain()

    async def drained(self) -> None:
        """Wait until the last connection has ended."""
        if self._connections:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def abort(self) -> None:
        """Close every connection at once and drop unsent output."""
        if self.tls is not None:
            self.tls.abort()
        for connection in tuple(self._connections):
            connection.abort()


def _needs_login(name: str, config: BrokerConfig) -> bool:
    """Whether the listener of this name is one for SASL."""
    found = addresses.listeners(config)
    each_of = (*found.bound, *found.controller)
    return any(each.name == name and logs_in(each.protocol) for each in each_of)


def _ignore(peer: str) -> None:
    """The default `closed`."""
