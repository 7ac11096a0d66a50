"""One named listener: its socket, its connections, and the limits that keep floods out."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wirekafka.apis.registry import Call
from wirekafka.server import dispatch
from wirekafka.server.connection import Connection, Inbox

if TYPE_CHECKING:
    from wirekafka.broker import Broker
    from wirekafka.config.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

Serve: TypeAlias = Callable[
    [dispatch.Buffer, int, int, Call, dispatch.Replies], "dispatch.Parked | None"]
"""Serves one request, as `dispatch.serve` does."""

_BACKLOG = 1024
_FRAME_GRACE_MS = 30_000
_FRAME_BYTES_PER_MS = 4


@dataclass(slots=True, kw_only=True)
class Limits:
    """What all listeners of a broker allow together; times in milliseconds."""

    idle_ms: int
    connections: int
    connections_per_host: int
    connections_of_host: dict[str, int]
    """Hosts with a limit of their own (max.connections.per.ip.overrides)."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Limits:
        """The part of a broker's configuration that limits connections."""
        overrides = {}
        for pair in filter(None, config.max_connections_per_ip_overrides.split(",")):
            host, _, most = pair.strip().rpartition(":")
            overrides[host] = int(most)
        return cls(
            idle_ms=config.connections_max_idle_ms, connections=config.max_connections,
            connections_per_host=config.max_connections_per_ip, connections_of_host=overrides)

    def of_host(self, host: str) -> int:
        """How many connections one host may have."""
        return self.connections_of_host.get(host, self.connections_per_host)


class Roll:
    """Every connection of a broker, counted by host, and what they share."""

    def __init__(self, serve: Serve = dispatch.serve) -> None:
        self.inbox = Inbox()
        self.serve = serve
        self.by_host: Counter[str] = Counter()
        self.total = 0
        self.serial = 0


class Listener:
    """Accepts connections at one address under one name."""

    def __init__(self, name: str, bound: socket.socket, roll: Roll):
        self.name = name
        self.address: tuple[str, int] = bound.getsockname()[:2]
        """The host and port the socket is bound to."""
        self.inbox = roll.inbox
        self.serve = roll.serve
        self.request_limit_bytes = 0
        self._socket = bound
        self._roll = roll
        self._broker: Broker | None = None
        self._config: BrokerConfig | None = None
        self._limits: Limits
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, str] = {}

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self, broker: Broker) -> None:
        """Accept connections and serve them from `broker`."""
        self._broker = broker
        self.request_limit_bytes = broker.config.socket_request_max_bytes
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=self._socket,
                                               backlog=_BACKLOG)

    def accept(self, connection: Connection, transport: asyncio.Transport) -> Call | None:
        """Take a connection in, or None when there are too many."""
        peer = transport.get_extra_info("peername")
        if peer is None or self._broker is None:
            return None
        host, port = peer[0].removeprefix("::ffff:"), peer[1]
        roll, limits = self._roll, self._current_limits(self._broker)
        if roll.total >= limits.connections:
            logger.warning("Refusing %s:%d: there are max.connections=%d already",
                           host, port, limits.connections)
            return None
        if roll.by_host[host] >= limits.of_host(host):
            logger.warning("Refusing %s:%d: it has max.connections.per.ip=%d already",
                           host, port, limits.of_host(host))
            return None
        roll.total += 1
        roll.serial += 1
        roll.by_host[host] += 1
        self._connections[connection] = host
        local = transport.get_extra_info("sockname")
        connection_id = f"{local[0]}:{local[1]}-{host}:{port}-{roll.serial}"
        return Call(self._broker, client_host=f"/{host}", connection_id=connection_id,
                    listener=self.name)

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        host = self._connections.pop(connection, None)
        if host is None:
            return
        self._roll.total -= 1
        self._roll.by_host[host] -= 1
        if not self._roll.by_host[host]:
            del self._roll.by_host[host]

    def sweep(self, now_ms: int) -> None:
        """Close connections that are idle, or that dribble a request; called now and then."""
        if self._broker is None:
            return
        idle_ms = self._current_limits(self._broker).idle_ms
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

    def _current_limits(self, broker: Broker) -> Limits:
        """As configured now: they can be changed while the broker runs."""
        if self._config is not broker.config:
            self._config = broker.config
            self._limits = Limits.of(broker.config)
        return self._limits

    def _check_frame(self, connection: Connection, now_ms: int) -> None:
        """One request may not take forever to arrive: half a minute, and more if it is large."""
        if not connection.frame_bytes or connection.frames != connection.frames_seen:
            connection.frames_seen = connection.frames
            connection.frame_since_ms = now_ms
            return
        allowed_ms = _FRAME_GRACE_MS + connection.frame_bytes // _FRAME_BYTES_PER_MS
        if now_ms - connection.frame_since_ms > allowed_ms:
            connection.close("its request takes too long to arrive")

    def stop_accepting(self) -> None:
        """Refuse new connections; those there are go on."""
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()

    async def reopen(self, broker: Broker) -> None:
        """Accept connections again at the same address. Raises OSError."""
        host, port = self.address
        self._socket = bind(host, port)
        await self.start(broker)

    def drain(self) -> None:
        """Let every connection answer what it has under way, and close."""
        for connection in tuple(self._connections):
            connection.drain()

    def abort(self) -> None:
        """Cut every connection."""
        for connection in tuple(self._connections):
            connection.abort()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; an empty host is every address. OSError, in words, if not to be had."""
    try:
        if host == "" and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG,
                                        dualstack_ipv6=True)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror.partition(" (")[0] if error.strerror else str(error)
        raise OSError(f"cannot listen at {host}:{port}: {reason}") from error
