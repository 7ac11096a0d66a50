"""The limits on the connections of a broker: their number, and the rate of new connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple, Protocol

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners as addresses
from wirekafka.config.endpoints.host_limits import connections_of_hosts
from wirekafka.quotas.connection_rates import ConnectionRates
from wirekafka.quotas.rate import Windows
from wirekafka.server.connections.connection import Connection
from wirekafka.server.connections.half_closed_connections import HalfClosed
from wirekafka.server.connections.inbox import Inbox
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.request_memory import RequestMemory


@dataclass(slots=True, kw_only=True)
class Limits:
    """Connection limits over all listeners of a broker; times in milliseconds."""

    idle_ms: int
    connections: int
    connections_per_host: int
    connections_of_host: dict[str, int]
    """Limits of single hosts (max.connections.per.ip.overrides)."""
    per_second: int
    """The most new connections (max.connection.creation.rate)."""
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
            per_second=config.max_connection_creation_rate,
        )

    def of_host(self, host: str) -> int:
        """How many connections one host may have."""
        return self.connections_of_host.get(host, self.connections_per_host)


class Admission(NamedTuple):
    """A connection that the limits allow: its peer, and its serial number."""

    host: str
    port: int
    serial: int


class Member(Protocol):
    """A listener, as the limits see it."""

    name: str

    def established(self) -> Iterable[Connection]:
        """Its connections, without connections in a TLS handshake."""

    def slot_freed(self) -> None:
        """A connection of this or of another listener was closed, or a limit has changed."""


class ConnectionLimits:
    """Counts the connections of all listeners of a broker against the configured limits.

    Also holds the objects that these connections share, such as the read buffer and the request
    pipeline.
    """

    def __init__(
        self, pipeline: Pipeline | None = None, memory: RequestMemory | None = None
    ) -> None:
        self.inbox = Inbox()
        self.memory = memory
        """The limits on the memory of requests; None without."""
        self.half_closed = HalfClosed()
        self.pipeline = pipeline or Pipeline()
        self.total = 0
        self.by_host: Counter[str] = Counter()
        self.by_listener: Counter[str] = Counter()
        self.members: list[Member] = []
        """The listeners of the broker."""
        self.waiting: set[Member] = set()
        """The listeners that have connections for which there was no slot."""
        self._accepted = 0
        self._config: BrokerConfig | None = None
        self._reviewed: BrokerConfig | None = None
        self._limits: Limits
        self._rates: ConnectionRates | None = None

    def current(self, config: BrokerConfig) -> Limits:
        """The limits as configured now: they can be changed while the broker runs."""
        if self._config is not config:
            self._config = config
            self._limits = Limits.of(config)
        return self._limits

    def count_attempt(self, listener: str, config: BrokerConfig, now_ms: int) -> int:
        """Count a new connection against max.connection.creation.rate.

        Returns for how many ms the listener must wait before it accepts the connection. Connections
        of other brokers count against the limit of their listener only, if it is their own.
        """
        limits = self.current(config)
        if self._rates is None:
            size_ms = config.quota_window_size_seconds * 1000
            self._rates = ConnectionRates(Windows(config.quota_window_num, size_ms))
        throttle_ms = 0
        if listener != limits.brokers_listener:
            throttle_ms = self._rates.count(None, limits.per_second, now_ms)
        own = config.for_listener(listener).max_connection_creation_rate
        return max(throttle_ms, self._rates.count(listener, own, now_ms))

    def uncount_attempt(self, listener: str, config: BrokerConfig, now_ms: int) -> None:
        """Uncount an attempt: the address exceeds its connection_creation_rate."""
        assert self._rates is not None, "the attempt was counted"
        if listener != self.current(config).brokers_listener:
            self._rates.uncount(None, now_ms)
        self._rates.uncount(listener, now_ms)

    def reached(self, listener: str, config: BrokerConfig) -> str | None:
        """The limit for which a new connection has to wait; None if there is a slot.

        The connections of all listeners together are limited for clients only: brokers connect
        nevertheless, if they have a listener of their own.
        """
        limits = self.current(config)
        most = config.for_listener(listener).max_connections
        if self.by_listener[listener] >= most:
            return f"max.connections={most} of listener {listener}"
        if self.total >= limits.connections and listener != limits.brokers_listener:
            return f"max.connections={limits.connections}"
        return None

    def refusal(self, host: str, config: BrokerConfig) -> str | None:
        """Why another connection of this host must be refused; None if it is allowed."""
        most = self.current(config).of_host(host)
        if self.by_host[host] >= most:
            return f"its max.connections.per.ip={most} is reached"
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
        self._notify()

    def review(self, config: BrokerConfig) -> None:
        """Apply limits that were changed; called periodically."""
        if self._reviewed is not config:
            self._reviewed = config
            self.shed(config)
            self._notify()

    def shed(self, config: BrokerConfig) -> None:
        """Close the least recently used connections of clients while there are too many.

        There are after a broker has connected nevertheless, or after max.connections was lowered.
        """
        limits = self.current(config)
        excess = self.total - limits.connections
        if excess <= 0:
            return
        clients: list[Connection] = []
        for member in self.members:
            if member.name != limits.brokers_listener:
                for connection in member.established():
                    if connection.is_closing:
                        excess -= 1
                    else:
                        clients.append(connection)
        for connection in nsmallest(excess, clients, key=_last_use):
            reason = f"max.connections={limits.connections} is exceeded"
            connection.abort_for("max.connections is exceeded", reason)

    def _notify(self) -> None:
        for member in tuple(self.waiting):
            member.slot_freed()


def _last_use(connection: Connection) -> tuple[bool, int]:
    """The order of connections by the time of their last read; connections in use come last."""
    return connection.is_parked, connection.last_read
