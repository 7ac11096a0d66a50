"""Requests that are passed to a broker in this process as if they had been read from a socket.

For benchmarks of the code alone, from the read of a request's bytes to the write of its response.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from tests.in_process import InProcessBroker
from wirekafka.apis.shared.call import Call
from wirekafka.server.connections.connection import Connection
from wirekafka.server.connections.half_closed_connections import HalfClosed
from wirekafka.server.connections.inbox import Inbox
from wirekafka.server.connections.pipeline import Pipeline, Serve
from wirekafka.server.connections.repeated_warnings import RepeatedWarnings


class Transport:
    """Accepts all output of a connection, and drops it."""

    def write(self, data: bytes) -> None:
        pass

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> None:
        pass

    def is_closing(self) -> bool:
        return False


class _Owner:
    """Stands in for the listener of one connection."""

    request_limit_bytes = 1 << 20

    def __init__(self, broker: InProcessBroker):
        self.inbox = Inbox()
        self.half_closed = HalfClosed()
        self.serve: Serve = Pipeline().serve
        self.warnings = RepeatedWarnings()
        self._call = Call(broker.broker)

    def accept(self, connection: Connection, transport: asyncio.Transport) -> Call:
        return self._call

    def forget(self, connection: Connection) -> None:
        pass


def connected(broker: InProcessBroker, transport: Transport | None = None) -> Connection:
    """A connection to the broker that writes to `transport` instead of a socket."""
    connection = Connection(_Owner(broker))
    connection.connection_made(cast(Any, transport or Transport()))
    return connection


def receive(connection: Connection, request: bytes) -> None:
    """Let the broker serve one request, given with its size prefix."""
    size = len(request)
    connection.get_buffer(size)[:size] = request
    connection.buffer_updated(size)


def timed(connection: Connection, sent: bytes, requests: int) -> float:
    """Seconds of CPU time for some reads of one request each."""
    size = len(sent)
    connection.get_buffer(size)[:size] = sent
    start = time.process_time()
    for _ in range(requests):
        connection.get_buffer(size)
        connection.buffer_updated(size)
    return time.process_time() - start


def use_real_time(broker: InProcessBroker) -> None:
    """Give the broker the clock of a real one, whose calls are part of the cost."""
    broker.clock.now_ms = _now_ms  # type: ignore[method-assign]
    broker.clock.work_ns = time.perf_counter_ns  # type: ignore[method-assign]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
