"""What metrics cost a Produce request of one small batch that is read alone.

`python -m benchmarks.metrics_cost` prints µs of CPU time for a request that is written to a socket,
read, served, answered, and its response read. Brokers without and with metrics, each in a process
of its own, take turns of 200 requests, so that what else the machine does falls on all alike.
There are two without metrics, for the noise. The event loop is left out.
"""

from __future__ import annotations

import gc
import multiprocessing
import socket
import statistics
import tempfile
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from benchmarks.driver import batch_of, produce_frame
from benchmarks.without_sockets import Transport, connected, use_real_time
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.metrics.measures import Measures

KINDS = {"without metrics": False, "without, again": False, "with metrics": True}
_CONNECTIONS, _REQUESTS_EACH, _WARM_UP = 50, 4, 20
_RESPONSE_BYTES = 1 << 12


class _ToSocket(Transport):
    """Writes to a socket at once."""

    def __init__(self, end: socket.socket):
        self.write = end.send  # type: ignore[assignment,method-assign]


def _serve(turns: Pipe, has_metrics: bool) -> None:
    """Report the CPU time of a turn each time that a message is received; an empty one ends it."""
    frame = produce_frame("costs", batch_of(1, 200), 1)
    with tempfile.TemporaryDirectory() as directory:
        measures = Measures() if has_metrics else None
        broker = InProcessBroker(Path(directory), ManualClock(), measures=measures)
        use_real_time(broker)
        broker.create("costs")
        opened = []
        for _ in range(_CONNECTIONS):
            client, end = socket.socketpair()
            connection = connected(broker, _ToSocket(end))
            connection.serve_with(broker.node.listeners[0].serve, len(frame))
            opened.append((client, end, connection))

        def turn() -> float:
            start = time.process_time_ns()
            for client, end, connection in opened * _REQUESTS_EACH:
                client.send(frame)
                connection.buffer_updated(end.recv_into(connection.get_buffer(-1)))
                client.recv(_RESPONSE_BYTES)
            return (time.process_time_ns() - start) / 1000 / _CONNECTIONS / _REQUESTS_EACH

        for _ in range(_WARM_UP):
            turn()
        gc.collect()
        gc.freeze()
        while turns.recv():
            turn()  # The processor's caches have been used by the others.
            turns.send(min(turn(), turn()))
        broker.node.abort()


def costs(turns: int = 500) -> dict[str, list[float]]:
    """µs of CPU time of a request, in each turn."""
    context = multiprocessing.get_context("spawn")
    started = {}
    for kind, has_metrics in KINDS.items():
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, has_metrics))
        process.start()
        started[kind] = here, process
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    kinds = list(KINDS)
    for number in range(turns):
        first = number % len(kinds)  # No kind always comes first.
        for kind in kinds[first:] + kinds[:first]:
            pipe, _ = started[kind]
            pipe.send(True)
            taken[kind].append(pipe.recv())
    for pipe, process in started.values():
        pipe.send(False)
        process.join()
    return taken


def main() -> None:
    taken = costs()
    base, *_ = taken.values()
    for kind, each in taken.items():
        added = statistics.median(us - of_base for us, of_base in zip(each, base, strict=True))
        print(f"{kind:16} {statistics.median(each):6.2f} µs a request, {added:+.2f} µs")


if __name__ == "__main__":
    main()
