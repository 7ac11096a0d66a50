"""The least that a row of the benchmark can cost: `python -m benchmarks.floors`.

A server that does nothing but the system calls of a row (wait, receive, append to a file or send
from one, respond) gets the same requests from the same sockets as a broker. Its CPU within the
kernel is what every broker pays; the rest of a broker's is its own. All is one process' CPU, for
each request and each MB (1e6 bytes of records).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil

from benchmarks.cores import (
    CONSUME,
    PRODUCE_SMALL,
    Case,
    Request,
    Stream,
    Subject,
    prepared,
    wirekafka,
)

_READ_BYTES = 1 << 18
_FETCH_BYTES = 1 << 20
_RECORD_BYTES = 200
_RESPONSE = (54).to_bytes(4, "big") + bytes(54)
"""As long as the response to a Produce request for one partition."""
_FETCHED = (_FETCH_BYTES + 60).to_bytes(4, "big") + bytes(60)
ROWS = {
    "single records, 50 connections with one request each": Case(
        replace(PRODUCE_SMALL, depth=1), partitions=1, connections=50
    ),
    "batches of 50 records, 4 connections with 4 requests each": Case(
        replace(PRODUCE_SMALL, records=50, depth=4), partitions=1, connections=4
    ),
    "consume, 1 consumer": Case(CONSUME, partitions=1, connections=1),
    "consume, 10 consumers": Case(CONSUME, partitions=1, connections=10),
    "consume, 100 consumers": Case(CONSUME, partitions=1, connections=100),
}


class Floor:
    """A server of one kind of request, which does not look into it."""

    def __init__(self, listening: socket.socket, path: Path, *, is_fetch: bool):
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        if is_fetch:
            os.write(self._file, bytes(_FETCH_BYTES))
        self._is_fetch = is_fetch
        self._selector = selectors.EpollSelector()
        self._listening = listening
        self._selector.register(listening, selectors.EVENT_READ)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._rests: dict[socket.socket, bytes] = {}
        self._unsent: dict[socket.socket, int] = {}

    def run(self) -> None:
        """Serve for ever."""
        while True:
            for key, events in self._selector.select():
                connection = key.fileobj
                if connection is self._listening:
                    accepted, _ = self._listening.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 102_400)
                    accepted.setblocking(False)
                    self._selector.register(accepted, selectors.EVENT_READ)
                    self._rests[accepted] = b""
                elif not isinstance(connection, socket.socket):
                    continue
                elif events & selectors.EVENT_WRITE:
                    self._send(connection)
                elif not self._receive(connection):
                    self._selector.unregister(connection)
                    connection.close()

    def _receive(self, connection: socket.socket) -> bool:
        try:
            rest = self._rests[connection]
            size = connection.recv_into(self._buffer[len(rest) :])
        except ConnectionError:
            return False
        self._buffer[: len(rest)] = rest
        at, end, count = 0, size + len(rest), 0
        while end - at >= 4:
            stop = at + 4 + int.from_bytes(self._buffer[at : at + 4], "big")
            if stop > end:
                break
            if not self._is_fetch:
                os.write(self._file, self._buffer[at:stop])
            at = stop
            count += 1
        self._rests[connection] = bytes(self._buffer[at:end])
        if count and self._is_fetch:
            connection.send(_FETCHED)
            self._unsent[connection] = _FETCH_BYTES
            self._send(connection)
        elif count:
            connection.send(_RESPONSE * count)
        return size > 0

    def _send(self, connection: socket.socket) -> None:
        unsent = self._unsent[connection]
        try:
            offset = _FETCH_BYTES - unsent
            unsent -= os.sendfile(connection.fileno(), self._file, offset, unsent)
        except BlockingIOError:
            pass
        except ConnectionError:
            unsent = 0
        self._unsent[connection] = unsent
        wanted = selectors.EVENT_WRITE if unsent else selectors.EVENT_READ
        self._selector.modify(connection, wanted)


@contextmanager
def floor(directory: Path, *, is_fetch: bool) -> Iterator[Subject]:
    """The server in a process of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        server = Floor(listening, directory / "floor", is_fetch=is_fetch)
        process = multiprocessing.get_context("fork").Process(target=server.run, daemon=True)
        process.start()
        try:
            assert process.pid is not None
            yield Subject("floor", listening.getsockname(), psutil.Process(process.pid))
        finally:
            process.kill()
            process.join()


@dataclass(frozen=True, slots=True)
class Cost:
    """One run: the requests and MB in each second, and the CPU for each request in µs."""

    requests_per_s: float
    mb_per_request: float
    user_us: float
    kernel_us: float


def measure(
    subject: Subject, requests: Sequence[Request], mb_per_request: float, seconds: float
) -> Cost:
    """Repeat the requests from one process, and charge what the subject used meanwhile."""
    buffer = memoryview(bytearray(_READ_BYTES))
    with selectors.DefaultSelector() as selector:
        for each in requests:
            stream = Stream(each.address, each.frame, each.depth, buffer)
            selector.register(stream, selectors.EVENT_READ, stream)
            stream.begin()
        _drive(selector, seconds / 4)
        before, began = subject.process.cpu_times(), time.monotonic()
        done = _drive(selector, seconds)
        after, elapsed_s = subject.process.cpu_times(), time.monotonic() - began
        for key in list(selector.get_map().values()):
            key.data.close()
    return Cost(
        done / elapsed_s,
        mb_per_request,
        (after.user - before.user) / done * 1e6,
        (after.system - before.system) / done * 1e6,
    )


def _drive(selector: selectors.BaseSelector, seconds: float) -> int:
    deadline, done = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        for key, _ in selector.select(0.1):
            done += key.data.receive()[0]
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument("--turns", type=int, default=3, help="how often each has its turn")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    arguments = parser.parse_args()
    print("| Row | | requests/s | CPU µs/request | within the kernel | CPU ms/MB |")
    print("|---|---|---|---|---|---|")
    for title, row in ROWS.items():
        if arguments.only not in title:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch)
            with (
                wirekafka(1, directory) as broker,
                floor(directory, is_fetch=row.work.fetches) as bare,
            ):
                requests = prepared(broker, row)
                bare_requests = [replace(each, address=bare.address) for each in requests]
                size = _FETCH_BYTES if row.work.fetches else row.work.records * _RECORD_BYTES
                costs: dict[str, list[Cost]] = {"bare calls": [], "wirekafka": []}
                for _ in range(arguments.turns):
                    for name, subject, wanted in (
                        ("bare calls", bare, bare_requests),
                        ("wirekafka", broker, requests),
                    ):
                        cost = measure(subject, wanted, size / 1e6, arguments.seconds)
                        costs[name].append(cost)
        for name, runs in costs.items():
            print(_line(title, name, runs), flush=True)
    return 0


def _line(row: str, name: str, runs: Sequence[Cost]) -> str:
    rate = median(each.requests_per_s for each in runs)
    kernel = median(each.kernel_us for each in runs)
    whole = median(each.kernel_us + each.user_us for each in runs)
    per_mb = whole / 1e3 / runs[0].mb_per_request
    return f"| {row} | {name} | {rate:,.0f} | {whole:.1f} | {kernel:.1f} | {per_mb:.3f} |"


if __name__ == "__main__":
    sys.exit(main())
