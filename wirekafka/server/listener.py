"""A named listener: its address, its connections, and the limits on their number."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wirekafka.apis.registry import Call
from wirekafka.config import listeners as addresses
from wirekafka.config.address import Address
from wirekafka.config.host_limits import connections_of_hosts
from wirekafka.config.security_protocol import logs_in
from wirekafka.server.connection import Connection, Inbox
from wirekafka.server.logins import Logins
from wirekafka.server.net import Port
from wirekafka.server.pipeline import Pipeline, Serve
from wirekafka.server.repeated_warnings import Occasion

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.config.broker_config import BrokerConfig

ADMISSION, PRINCIPAL = "wirekafka.admission", "wirekafka.principal"
"""What the transport of a TLS connection returns from `get_extra_info` besides the usual names."""

_FRAME_GRACE_MS = 30_000
_FRAME_BYTES_PER_MS = 4


@dataclass(slots=True, kw_only=True)
class Limits:
    """Connection limits over all listeners of a broker; times in milliseconds."""

    idle_ms: int
    connections: int
    connections_per_host: int
    connections_of_host: dict[str, int]
    """Limits of single hosts (max.connections.per.ip.overrides)."""
    brokers_listener: str | None
    """The listener for other brokers; None if clients use the only one."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Limits:
        """The connection limits in a broker's configuration."""
        found = addresses.listeners(config)
        return cls(
            brokers_listener=found.inter_broker if len(found.bound) > 1 else None,
            idle_ms=config.connections_max_idle_ms,
            connections=config.max_connections,
            connections_per_host=config.max_connections_per_ip,
            connections_of_host=connections_of_hosts(config.max_connections_per_ip_overrides),
        )

    def of_host(self, host: str) -> int:
        """How many connections one host may have."""
        return self.connections_of_host.get(host, self.connections_per_host)


class Admission(NamedTuple):
    """A connection that the limits allow: its peer, and its serial number."""

    host: str
    port: int
    serial: int


class ConnectionLimits:
    """Counts the connections of all listeners of a broker against the configured limits.

    Also holds what these connections share: the read buffer and the request pipeline.
    """

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        self.inbox = Inbox()
        self.pipeline = pipeline or Pipeline()
        self.total = 0
        self.by_host: Counter[str] = Counter()
        self.by_listener: Counter[str] = Counter()
        self._accepted = 0
        self._config: BrokerConfig | None = None
        self._limits: Limits

    def current(self, config: BrokerConfig) -> Limits:
        """The limits as configured now: they can be changed while the broker runs."""
        if self._config is not config:
            self._config = config
            self._limits = Limits.of(config)
        return self._limits

    def refusal(self, host: str, listener: str, config: BrokerConfig) -> str | None:
        """Why another connection of this host must be refused; None if it is allowed.

        The connections of all listeners together are limited for clients only: brokers connect
        nevertheless, if they have a listener of their own.
        """
        limits = self.current(config)
        most = config.for_listener(listener).max_connections
        if self.by_listener[listener] >= most:
            return f"max.connections={most} of listener {listener} is reached"
        if self.total >= limits.connections and listener != limits.brokers_listener:
            return f"max.connections={limits.connections} is reached"
        if self.by_host[host] >= limits.of_host(host):
            return f"its max.connections.per.ip={limits.of_host(host)} is reached"
        return None

    def enter(self, host: str, listener: str) -> int:
        """Count a new connection; returns its serial number."""
        self.total += 1
        self.by_listener[listener] += 1
        self.by_host[host] += 1
        self._accepted += 1
        return self._accepted

    def leave(self, host: str, listener: str) -> None:
        """Uncount a closed connection of this host."""
        self.total -= 1
        self.by_listener[listener] -= 1
        self.by_host[host] -= 1
        if not self.by_host[host]:
            del self.by_host[host]


class Encryption(Protocol):
    """The TLS of a listener."""

    def link(self) -> asyncio.BufferedProtocol:
        """Create the protocol of a new connection, which begins with a handshake."""

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if a new configuration cannot be used."""

    def sweep(self, now_ms: int) -> None:
        """Close connections whose handshake takes too long; called periodically."""

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
        self.inbox = limits.inbox
        self.serve: Serve = limits.pipeline.serve
        self._logins: Logins | None = None
        self.warnings = limits.pipeline.warnings
        self.request_limit_bytes = 0
        self._port = port
        self._limits = limits
        self.broker: Broker | None = None
        self._connections: dict[Connection, str] = {}
        self._emptied: asyncio.Future[None] | None = None

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self, broker: Broker) -> None:
        """Accept connections and serve them from `broker`. Raises ConfigError."""
        self.broker = broker
        if self._logins is None and _needs_login(self.name, broker.config):
            self._logins = Logins(broker, self.name, self._limits.pipeline)
            await self._logins.start()
        self.request_limit_bytes = broker.config.socket_request_max_bytes
        await self._port.accept(self._protocol)

    def _protocol(self) -> asyncio.BufferedProtocol:
        return Connection(self) if self.tls is None else self.tls.link()

    def accept(self, connection: Connection, transport: asyncio.Transport) -> Call | None:
        """Register a connection and return its context; None if a limit refuses it."""
        # A TLS connection was admitted before its handshake.
        admission = transport.get_extra_info(ADMISSION) or self.admit(transport)
        if admission is None or self.broker is None:
            return None
        host, port, serial = admission
        self._connections[connection] = host
        local = transport.get_extra_info("sockname")
        connection_id = f"{local[0]}:{local[1]}-{host}:{port}-{serial}"
        call = Call(
            self.broker, client_host=f"/{host}", connection_id=connection_id, listener=self.name
        )
        principal = transport.get_extra_info(PRINCIPAL)
        if self._logins is not None:
            self._logins.guard(connection, call)
        elif principal is not None:
            call.authenticated(principal)
        return call

    def admit(self, transport: asyncio.Transport) -> Admission | None:
        """Count a new connection; None if a limit refuses it, which is logged."""
        peer = transport.get_extra_info("peername")
        if peer is None or self.broker is None:
            return None
        host, port = peer[0].removeprefix("::ffff:"), peer[1]
        refusal = self._limits.refusal(host, self.name, self.broker.config)
        if refusal is None and not self.broker.stored_quotas.addresses.may_connect(
            host, self.broker.clock.now_ms()
        ):
            refusal = "its connection_creation_rate is exceeded"
        if refusal is not None:
            self.warn(host, "Refusing a connection", f"Refusing {Address(host, port)}: {refusal}")
            return None
        return Admission(host, port, self._limits.enter(host, self.name))

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
        if self.broker is not None:
            self.broker.shares.disconnected(connection.peer)
        self.release(host)

    def release(self, host: str) -> None:
        """Uncount a connection that `admit` has counted."""
        self._limits.leave(host, self.name)
        if not self._connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def sweep(self, now_ms: int) -> None:
        """Close connections that are idle or send a request too slowly; called periodically."""
        if self.broker is None:
            return
        idle_ms = self._limits.current(self.broker.config).idle_ms
        for connection in tuple(self._connections):
            if connection.was_active:
                connection.was_active = False
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
            self.tls.sweep(now_ms)
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
        """Refuse new connections; established ones go on."""
        self._port.close()
        if self._logins is not None:
            self._logins.stop()

    async def reopen(self, port: Port, broker: Broker) -> None:
        """Accept connections again, at a newly bound port."""
        self._port = port
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
    bound = addresses.listeners(config).bound
    return any(each.name == name and logs_in(each.protocol) for each in bound)
