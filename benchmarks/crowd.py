"""Latency of one honest producer beside a crowd: idle, slow and short-lived connections.

`python -m benchmarks.crowd [SECONDS]` prints median and p99 in ms of an open loop of 100 Produce
requests a second: alone, then beside 10,000 idle connections, 200 with unfinished requests and
5,000 short-lived ones a minute, then beside a client that is throttled. Each request is timed from
when it was due. The crowd is a process of its own. Meant for an idle machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path

from benchmarks.driver import Connection, batch_of, create_topic, produce_frame
from spark_examples.live_broker import live_broker
from tests.raw_client import RawClient
from tests.server.test_client_quotas import quota_request

IDLE, SLOW, SHORT_PER_S = 10_000, 200, 5_000 / 60
RATE = 100
TOPIC = "honest"


def latencies(address: tuple[str, int], seconds: float) -> list[float]:
    """The latency in ms of each request."""
    connection = Connection(*address)
    frame = produce_frame(TOPIC, batch_of(1, 200), 1)
    found = []
    begun_s = time.perf_counter()
    for number in range(int(seconds * RATE)):
        due_s = begun_s + number / RATE
        while (early_s := due_s - time.perf_counter()) > 0:
            time.sleep(early_s)
        connection.send(frame)
        connection.response()
        found.append((time.perf_counter() - due_s) * 1000)
    connection.close()
    return found


def connect(address: tuple[str, int], ready: Event, stop: Event) -> None:
    """Hold idle and slow connections, and open short-lived ones until the end."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = [socket.create_connection(address) for _ in range(IDLE)]
    for _ in range(SLOW):
        slow = socket.create_connection(address)
        slow.sendall(b"\0\0\x10\0\0\0")
        held.append(slow)
    ready.set()
    begun_s, count = time.perf_counter(), 0
    while not stop.wait(max(0.0, begun_s + count / SHORT_PER_S - time.perf_counter())):
        count += 1
        short = Connection(*address)
        short.api_versions()
        short.close()
        if not count % 10:
            for each in held[-SLOW:]:
                with suppress(OSError):  # The broker closes it in the end.
                    each.send(b"\0")
    for each in held:
        each.close()


def produce_too_much(address: tuple[str, int], ready: Event, stop: Event) -> None:
    """Produce as fast as the quota of this client allows, on four connections in turn."""
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(address[1], timeout_s=120)) for _ in range(4)]
        frame = produce_frame("throttled", batch_of(50, 200), 1).replace(b"benchmark", b"throttled")
        ready.set()
        for client in clients:
            client.socket.sendall(frame)
        while not stop.is_set():
            for client in clients:
                client.receive_frame()
                client.socket.sendall(frame)


@contextmanager
def beside(crowd: object, address: tuple[str, int]) -> Iterator[None]:
    """Run a crowd in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    process = context.Process(target=crowd, args=(address, ready, stop), daemon=True)
    process.start()
    assert ready.wait(120), "the crowd has not connected"
    try:
        yield
    finally:
        stop.set()
        process.join(5)
        process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as scratch, live_broker(Path(scratch) / "data") as bootstrap:
        host, _, port = bootstrap.rpartition(":")
        address = host, int(port)
        for topic in (TOPIC, "throttled"):
            create_topic(*address, topic, 1)
        with RawClient(address[1]) as client:
            client.call(quota_request("producer_byte_rate", 100_000, client_id="throttled"), 1)
        latencies(address, 2)
        alone = show("alone", latencies(address, seconds), None)
        with beside(connect, address):
            show(
                "beside idle, slow and short-lived connections", latencies(address, seconds), alone
            )
        again = show("alone again", latencies(address, seconds), alone)
        with beside(produce_too_much, address):
            show("beside a throttled client", latencies(address, seconds), again)


def show(name: str, found: list[float], base: float | None) -> float:
    """Print the latencies, and their p99 as a multiple of another; returns the p99."""
    p99 = statistics.quantiles(found, n=100)[98]
    times = f", x{p99 / base:.2f}" if base else ""
    print(f"{name}: median {statistics.median(found):.2f} ms, p99 {p99:.2f} ms{times}", flush=True)
    return p99


if __name__ == "__main__":
    main()
