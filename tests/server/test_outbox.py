"""Large fetches: from file to socket, with slow readers and failing files."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest
import uvloop

from tests.eventually import eventually_async
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.files import RealDisk
from wirekafka.log.slice import LogSlice
from wirekafka.server.connections.outbox import Outbox
from wirekafka.server.node import Node

_DATA = os.urandom(5 << 20)
Reader = Callable[[socket.socket], bytes]


class Sender(asyncio.Protocol):
    """Sends some chunks as soon as it is connected, as a connection does."""

    def __init__(self, chunks: list[bytes | LogSlice]):
        self._chunks = chunks
        self.error: OSError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.outbox = Outbox(self._transport)
        self.outbox.queue(self._chunks)
        self._flush()

    def pause_writing(self) -> None:
        self.outbox.is_paused = True

    def resume_writing(self) -> None:
        self.outbox.is_paused = False
        self._flush()

    def _flush(self) -> None:
        try:
            self.outbox.flush()
        except OSError as error:
            self.error = error
            self._transport.abort()
            return
        if self.outbox.is_empty:
            self._transport.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def records(tmp_path: Path) -> LogSlice:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(_DATA)
    return LogSlice(RealDisk().open(str(path), len(_DATA)), 0, len(_DATA))


def read_all(connected: socket.socket) -> bytes:
    parts = []
    while part := connected.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def read_slowly(connected: socket.socket) -> bytes:
    """A reader that is slower than the sender, and takes little at a time."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    parts = []
    while part := connected.recv(7001):
        parts.append(part)
    return b"".join(parts)


def exchange(loop: asyncio.AbstractEventLoop, sender: Sender, read: Reader) -> bytes:
    """What a reader in another thread receives until the sender closes the connection."""
    received: list[bytes] = []

    async def run() -> None:
        server = await loop.create_server(lambda: sender, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()

        def work() -> None:
            with socket.create_connection(address, timeout=20) as connected:
                try:
                    received.append(read(connected))
                except ConnectionError:
                    received.append(b"reset")

        thread = threading.Thread(target=work)
        thread.start()
        await eventually_async(lambda: not thread.is_alive(), timeout_s=200)
        server.close()
        await server.wait_closed()

    loop.run_until_complete(run())
    return received[0]


@pytest.mark.parametrize("read", [read_all, read_slowly])
def test_bytes_and_files_arrive_whole_and_in_order(
    loop: asyncio.AbstractEventLoop, records: LogSlice, read: Reader
) -> None:
    [(file, _, _)] = records.regions()
    part = LogSlice(file, 1000, 300_000)
    sender = Sender([b"first", records, b"between", part, part, b"last"])
    cut = _DATA[1000:301_000]
    assert exchange(loop, sender, read) == b"first" + _DATA + b"between" + cut + cut + b"last"


def test_data_that_a_slow_reader_has_not_read_stays_in_the_file(
    loop: asyncio.AbstractEventLoop, records: LogSlice
) -> None:
    most = 0

    class Watching(Sender):
        def pause_writing(self) -> None:
            nonlocal most
            super().pause_writing()
            most = max(most, self._transport.get_write_buffer_size())

    sender = Watching([b"head", *[records] * 4, b"tail"])
    assert exchange(loop, sender, read_slowly) == b"head" + _DATA * 4 + b"tail"
    assert 0 < most < 1 << 20


def test_a_file_that_ends_early_is_an_error(
    loop: asyncio.AbstractEventLoop, records: LogSlice
) -> None:
    [(file, _, _)] = records.regions()
    os.truncate(file.path, 1 << 20)
    sender = Sender([b"head", records, b"tail"])
    assert len(exchange(loop, sender, read_all)) < len(_DATA)
    assert "ends before" in str(sender.error)


def test_a_peer_that_goes_away_ends_the_sending(
    loop: asyncio.AbstractEventLoop, records: LogSlice
) -> None:
    sender = Sender([records] * 20)
    assert exchange(loop, sender, lambda connected: connected.recv(10)) == _DATA[:10]
    assert sender.error is None


@pytest.mark.parametrize(("configured", "expected"), [("50000", {50_000, 100_000}), ("-1", None)])
def test_accepted_connections_have_the_configured_send_buffer(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, configured: str, expected: set[int] | None
) -> None:
    async def accepted_with() -> int:
        node = Node(
            BrokerConfig.of(
                {
                    "log.dirs": str(tmp_path / "data"),
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                    "socket.send.buffer.bytes": configured,
                }
            )
        )
        await node.start()
        [listener] = node.listeners
        _, writer = await asyncio.open_connection(*listener.address)
        while not listener.connections:
            await asyncio.sleep(0)
        [connection] = listener._connections
        assert connection._transport is not None
        size: int = connection._transport.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF
        )
        writer.close()
        await node.stop()
        return size

    size_bytes = loop.run_until_complete(accepted_with())  # Linux reports twice the size.
    assert size_bytes in expected if expected is not None else size_bytes > 200_000


class Recorded(asyncio.Transport):
    """A transport in memory that takes little at a time, over a socket that must not be used."""

    def __init__(self, protocol: Sender, raw: socket.socket, *, encrypts: bool):
        super().__init__()
        self._protocol, self._raw, self._encrypts = protocol, raw, encrypts
        self._unsent = bytearray()
        self._high = 0
        self._paused = False
        self.received = bytearray()
        self.most_unsent = 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "sslcontext" and self._encrypts:
            return ssl.create_default_context()
        return self._raw if name == "socket" and self._encrypts else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._unsent += data
        self.most_unsent = max(self.most_unsent, len(self._unsent))
        if len(self._unsent) > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.deliver()

    def deliver(self) -> None:
        """The peer reads what was written."""
        self.received += self._unsent
        self._unsent.clear()
        if self._paused:
            self._paused = False
            self._protocol.resume_writing()


@pytest.mark.parametrize("encrypts", [True, False])
def test_a_transport_that_is_no_plain_socket_is_given_all_bytes(
    records: LogSlice, encrypts: bool
) -> None:
    ours, peers = socket.socketpair()
    with ours, peers:
        peers.setblocking(False)
        sender = Sender([b"head", records, b"between", records, b"tail"])
        transport = Recorded(sender, ours, encrypts=encrypts)
        sender.connection_made(transport)
        turns = 0
        while not sender.outbox.is_empty:
            transport.deliver()
            turns += 1
        transport.deliver()
        assert transport.received == b"head" + _DATA + b"between" + _DATA + b"tail"
        assert turns > 20 and transport.most_unsent < 1 << 18
        with pytest.raises(BlockingIOError):
            peers.recv(1)
