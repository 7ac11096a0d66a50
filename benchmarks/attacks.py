"""Latency of one honest producer during attacks, on wirekafka and on Apache Kafka in turn.

`python -m benchmarks.attacks [SECONDS]` prints median and p99 in ms of an open loop of 100 Produce
requests a second: alone, beside well-behaved newcomers, and during each attack, with the p99 as a
multiple of that alone and the broker's additional memory. An attacker is one process, as fast as
the broker lets it be. `--alone` leaves out Apache Kafka. Meant for an idle machine with a core for
each of broker, attacker and producer: with fewer, the newcomers, and a process that only computes,
show what their load alone costs. `--real-time` gives broker and producer the processor before all
others (Linux, root), so that what the scheduler adds is left out.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import socket
import ssl
import statistics
import struct
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from itertools import cycle
from multiprocessing.synchronize import Event
from pathlib import Path

from benchmarks.crowd import TOPIC, beside, latencies
from benchmarks.driver import Connection, create_topic, produce_frame
from benchmarks.peers import ApacheKafka, Peer, Security, Target, Wirekafka
from tests.certificates import Authority, client_context
from tests.fuzz.frames import is_unfinished, malformed_frames
from tests.server.tls_garbage import client_hello, garbage
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, batch_of, encode_record

STALLED = 2_000
_BOMBS = {
    Codec.GZIP: 256 << 20,
    Codec.SNAPPY: 20 << 20,
    Codec.LZ4: 240 << 20,
    Codec.ZSTD: 256 << 20,
}
"""What each inflates to; compressed, none exceeds max.message.bytes."""
_TURNS = 3
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Address = tuple[str, int]
Crowd = Callable[[Address, Event, Event], None]


def join_and_leave(address: Address, ready: Event, stop: Event) -> None:
    """Connect, send one request and disconnect, again and again."""
    ready.set()
    while not stop.is_set():
        newcomer = Connection(*address)
        newcomer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        newcomer.api_versions()
        newcomer.close()


def compute(address: Address, ready: Event, stop: Event) -> None:
    """Do nothing to the broker, but keep a processor busy."""
    ready.set()
    while not stop.is_set():
        pass


def send_malformed_frames(address: Address, ready: Event, stop: Event) -> None:
    """Send a malformed frame on a new connection, again and again."""
    ready.set()
    for frame in malformed_frames(1):
        if stop.is_set():
            return
        _send(address, frame, awaits_close=not is_unfinished(frame))


def send_garbage(address: Address, ready: Event, stop: Event, tls_port: int, hello: bytes) -> None:
    """Send garbage in place of a TLS handshake, again and again."""
    chance = random.Random(3)
    ready.set()
    while not stop.is_set():
        _send((address[0], tls_port), garbage(chance, hello), awaits_close=True)


def stall(address: Address, ready: Event, stop: Event, tls_port: int, hello: bytes) -> None:
    """Hold connections that stall before, within and after a TLS handshake, and in a request."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    tls = (address[0], tls_port)
    stages = ((tls, b""), (tls, hello[:100]), (tls, hello), (address, b"\0\0\x10\0\0\0"))
    with ExitStack() as held:
        for number in range(STALLED):
            place, sent = stages[number % len(stages)]
            held.enter_context(socket.create_connection(place)).sendall(sent)
        ready.set()
        stop.wait()


def send_bombs(address: Address, ready: Event, stop: Event) -> None:
    """Produce batches of up to 256 MiB when they are decompressed, again and again."""
    frames = _bombs()
    attacker = Connection(*address)
    ready.set()
    while not stop.is_set():
        for frame in frames:
            attacker.send(frame)
            attacker.response()
    attacker.close()


def leave_bombs(address: Address, ready: Event, stop: Event) -> None:
    """Produce them on new connections, without waiting for responses."""
    frames = cycle(_bombs())
    ready.set()
    while not stop.is_set():
        _send(address, next(frames), awaits_close=True)


def _bombs() -> list[bytes]:
    """Each is one record, so that nothing is wrong before its end, and says that there are two."""
    bombs = [
        batch_of(
            encode_record(Record(value=bytes(size)), 0, 0), 2, 0, BatchOptions(compression=codec)
        )
        for codec, size in _BOMBS.items()
    ]
    return [produce_frame(TOPIC, bomb, 1) for bomb in bombs]


def _send(address: Address, data: bytes, *, awaits_close: bool) -> None:
    with suppress(OSError), socket.create_connection(address, timeout=5) as connection:
        # A huge number of connections in TIME_WAIT would use up the ports.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        connection.sendall(data)
        if awaits_close:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=20.0)
    parser.add_argument("--alone", action="store_true", help="wirekafka only")
    parser.add_argument(
        "--real-time", action="store_true", help="broker and producer before all other processes"
    )
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    peers: list[Peer] = [Wirekafka()] if arguments.alone else [Wirekafka(), ApacheKafka()]
    for peer in peers:
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch)
            with peer.start(directory, Security.TLS) as target:
                if arguments.real_time:
                    _run_before_others(target)
                _measure(target, directory, arguments.seconds)


def _run_before_others(target: Target) -> None:
    """Schedule the broker and this process before all others, but not the attackers."""
    assert target.process is not None
    priority = os.sched_param(1)
    for thread in target.process.threads():
        os.sched_setscheduler(thread.id, os.SCHED_FIFO, priority)
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, priority)


def _measure(target: Target, directory: Path, seconds: float) -> None:
    assert target.secured is not None
    address = target.host, target.port
    create_topic(*address, TOPIC)
    hello = client_hello(_context(directory))
    tls = {"tls_port": target.secured.port, "hello": hello}
    crowds: dict[str, Crowd] = {
        "a busy process": compute,
        "newcomers": join_and_leave,
        "malformed frames": send_malformed_frames,
        "garbage handshakes": partial(send_garbage, **tls),
        f"{STALLED} stalled connections": partial(stall, **tls),
        "decompression bombs": send_bombs,
        "bombs of clients that leave": leave_bombs,
    }
    latencies(address, 3)
    for name, crowd in crowds.items():
        alone, during = [], []
        before_mib = target.resident_mib()
        for _ in range(_TURNS):
            alone += latencies(address, seconds / _TURNS)
            with beside(crowd, address):
                during += latencies(address, seconds / _TURNS)
        growth_mib = target.resident_mib() - before_mib
        base, p99 = (statistics.quantiles(each, n=100)[98] for each in (alone, during))
        print(
            f"{target.name}, {name}: alone p50 {statistics.median(alone):.2f} p99 {base:.2f} ms, "
            f"then p50 {statistics.median(during):.2f} p99 {p99:.2f} ms, x{p99 / base:.2f}; "
            f"{growth_mib:+.1f} MiB",
            flush=True,
        )


def _context(directory: Path) -> ssl.SSLContext:
    """Of a client, whose hello does not depend on whom it trusts."""
    other = directory / "other"
    other.mkdir()
    return client_context(Authority(other))


if __name__ == "__main__":
    main()
