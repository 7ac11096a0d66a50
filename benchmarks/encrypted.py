"""Cases over TLS, with and without a login and ACLs: the usual clients, and handshakes alone."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any

from benchmarks import clients
from benchmarks.measure import Meter, Metrics
from benchmarks.peers import Secured, Target

_THREADS = 4
_TIMEOUT_S = 10


def produce(
    target: Target,
    seconds: float,
    settings: Mapping[str, Any],
    record_bytes: int,
    per_request: int = 0,
) -> Metrics:
    """As `clients.produce`, over TLS."""
    return clients.produce(
        target,
        seconds,
        {**settings, **_secured(target).client_settings()},
        record_bytes,
        per_request,
    )


def consume(target: Target, seconds: float) -> Metrics:
    """As `clients.consume`, over TLS."""
    return clients.consume(target, seconds, _secured(target).client_settings())


def handshakes(target: Target, seconds: float) -> Metrics:
    """New connections with full handshakes, one after the other in each of four threads."""
    secured = _secured(target)
    deadline = time.perf_counter() + seconds
    counts = [0] * _THREADS
    failures: list[Exception] = []

    def connect(number: int) -> None:
        context = ssl.create_default_context(cafile=secured.authority)
        try:
            while time.perf_counter() < deadline:
                address = (target.host, secured.port)
                with (
                    socket.create_connection(address, _TIMEOUT_S) as plain,
                    context.wrap_socket(plain, server_hostname=target.host),
                ):
                    counts[number] += 1
        except OSError as error:
            failures.append(error)

    meter = Meter(target)
    threads = [threading.Thread(target=connect, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return meter.metrics(requests=sum(counts))


def _secured(target: Target) -> Secured:
    if target.secured is None:
        raise ValueError(f"{target.name} has no TLS listener")
    return target.secured
