"""Metrics of logins and TLS handshakes by listener, named as by Kafka's JMX beans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wirekafka.metrics.exposition import COUNTER, Column, Table
from wirekafka.server.connections.listener import Listener

_PREFIX = "kafka_server_socket_server_metrics"
_PROCESSOR = "0"
_COUNTED = (
    ("successful_authentication", "Clients that have logged in, or shown their certificate."),
    ("failed_authentication", "Failed logins and TLS handshakes."),
    ("successful_reauthentication", "Logins that have renewed a session (KIP-368)."),
    ("failed_reauthentication", "Failed logins that were to renew a session."),
    (
        "successful_authentication_no_reauth",
        "Logins of clients that are too old to renew their session.",
    ),
)


class AuthenticationCollector:
    """Successful and failed authentications of each listener."""

    def __init__(self, listeners: Callable[[], Sequence[Listener]]):
        self._listeners = listeners
        self._table = Table(
            ["listener", "networkProcessor"],
            [Column(f"{_PREFIX}_{name}_total", COUNTER, text) for name, text in _COUNTED],
        )
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        self._table.fill(
            (
                (listener.name, _PROCESSOR),
                (
                    counts.successes,
                    counts.failures,
                    counts.renewals,
                    counts.failed_renewals,
                    counts.without_renewal,
                ),
            )
            for listener in self._listeners()
            for counts in (listener.authentications,)
        )
        yield
