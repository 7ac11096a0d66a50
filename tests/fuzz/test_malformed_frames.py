"""A broker closes connections with malformed frames; other clients and memory are unaffected."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import psutil
import pytest

from benchmarks.driver import produce_frame
from spark_examples.live_broker import live_broker
from tests.fuzz.frames import is_unfinished, malformed_frames, odd_frames
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, batch_of, encode_record

confluent_kafka = pytest.importorskip("confluent_kafka")

FRAMES = 100_000
ATTACKERS = 4
ODD_FRAMES = 3_000
BOMBS = 150
MOST_GROWTH_BYTES = 64 << 20

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Broker:
    """A live broker, its process and its log."""

    def __init__(self, bootstrap: str, log: Path):
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self.address = host, int(port)
        self._log = log
        self._process = next(
            child
            for child in psutil.Process().children()
            if any(c.laddr.port == self.address[1] for c in child.net_connections("tcp"))
        )

    @property
    def resident_bytes(self) -> int:
        size: int = self._process.memory_info().rss
        return size

    def tracebacks(self) -> list[str]:
        """The text after each traceback in the log."""
        _, *parts = self._log.read_text(errors="replace").split("Traceback (most recent call last)")
        return [part[:2000] for part in parts]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    data = tmp_path / "data"
    with live_broker(data) as bootstrap:
        yield Broker(bootstrap, data.with_name(f"{data.name}.log"))


def test_malformed_frames_do_not_affect_other_clients(broker: Broker) -> None:
    honest = HonestClient(broker.bootstrap, "honest")
    honest.produce_and_consume(100)
    before_bytes = broker.resident_bytes
    with _meanwhile(lambda: honest.produce_and_consume(10)):
        with ThreadPoolExecutor(ATTACKERS) as attackers:
            sent = sum(attackers.map(lambda seed: _attack(broker.address, seed), range(ATTACKERS)))
        growth_bytes = broker.resident_bytes - before_bytes
    assert sent >= FRAMES
    honest.produce_and_consume(100)
    HonestClient(broker.bootstrap, "newcomer").produce_and_consume(100)
    print(f"{sent} frames: {before_bytes >> 20} MiB and {growth_bytes / (1 << 20):.1f} MiB more")
    assert growth_bytes < MOST_GROWTH_BYTES
    assert broker.tracebacks() == []


def test_odd_requests_get_a_response_or_a_close(broker: Broker) -> None:
    for frame in islice(odd_frames(1), ODD_FRAMES):
        with _connection(broker.address) as connection:
            connection.sendall(frame)
            # A request may wait for long, as a join does; it is cancelled by a disconnect.
            connection.settimeout(0.002)
            _drain(connection)
    HonestClient(broker.bootstrap, "newcomer").produce_and_consume(100)
    assert broker.tracebacks() == []


def test_bombs_whose_senders_leave_at_once_do_not_wait_in_memory(broker: Broker) -> None:
    honest = HonestClient(broker.bootstrap, "honest")
    honest.produce_and_consume(100)
    before_bytes = broker.resident_bytes
    bomb = produce_frame("honest", _bomb(), 1)
    largest_bytes = 0
    for _ in range(BOMBS):
        with _connection(broker.address) as connection:
            connection.sendall(bomb)
            connection.shutdown(socket.SHUT_WR)
            _drain(connection)  # Until the broker, which has read it, has closed the connection.
        largest_bytes = max(largest_bytes, broker.resident_bytes)
    assert largest_bytes - before_bytes < MOST_GROWTH_BYTES < BOMBS * len(bomb)
    honest.produce_and_consume(100)


def _bomb() -> bytes:
    """A batch of one record where it says two, of about a megabyte, that takes long to check."""
    record = encode_record(Record(value=bytes(240 << 20)), 0, 0)
    return batch_of(record, 2, 0, BatchOptions(compression=Codec.LZ4))


def _attack(address: tuple[str, int], seed: int) -> int:
    """Send an attacker's share of the frames; returns how many the broker has read."""
    sent = 0
    for frame in islice(malformed_frames(seed), FRAMES // ATTACKERS):
        with _connection(address) as connection:
            try:
                connection.sendall(frame)
                if not is_unfinished(frame):
                    answer = connection.recv(100)
                    assert answer == b"", f"{frame.hex()} was answered {answer.hex()}"
            except (ConnectionResetError, BrokenPipeError):
                pass  # The broker closed the connection before it read everything.
            except TimeoutError:
                raise AssertionError(f"{frame.hex()} did not close the connection") from None
        sent += 1
    return sent


@contextmanager
def _connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=20) as connection:
        # A hundred thousand connections in TIME_WAIT would use up the ports.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        yield connection


def _drain(connection: socket.socket) -> None:
    try:
        while connection.recv(1 << 16):
            pass
    except (TimeoutError, ConnectionResetError):
        pass


@contextmanager
def _meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Repeat `work` in a thread until the block ends; raises its error."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(0.05):
            work()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(repeat)
        try:
            yield
        finally:
            done.set()
        working.result()


class HonestClient:
    """A stock producer and consumer with a topic of their own."""

    def __init__(self, bootstrap: str, topic: str):
        settings = {"bootstrap.servers": bootstrap}
        self._topic = topic
        self._producer = confluent_kafka.Producer({**settings, "enable.idempotence": True})
        self._consumer = confluent_kafka.Consumer(
            {**settings, "group.id": topic, "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([topic])
        self._values = 0

    def produce_and_consume(self, count: int) -> None:
        """Produce records, and read each of them once, in order."""
        expected = [b"%d" % (self._values + index) for index in range(count)]
        self._values += count
        for value in expected:
            self._producer.produce(self._topic, value)
        assert self._producer.flush(60) == 0
        assert [self._next() for _ in expected] == expected

    def _next(self) -> bytes:
        for _ in range(600):
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                value: bytes = message.value()
                return value
        raise AssertionError("no record within a minute")
