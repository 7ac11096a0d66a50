"""The operating system's network, as a node uses it."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest

from tests.memory_net import MemoryNet, MemoryPort
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.listeners import listeners
from wirekafka.server.binding import Bindings
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.net import SOCKET_DEFAULTS, SocketNet, SocketOptions


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Asker(asyncio.Protocol):
    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(b"hello")

    def data_received(self, data: bytes) -> None:
        self.answer.set_result(data)


def test_a_connection_made_before_a_port_accepts_is_served_later() -> None:
    async def scenario() -> bytes:
        net = SocketNet()
        port = net.listen("127.0.0.1", 0)
        transport, asker = await net.connect(*port.address, Asker)
        assert not asker.answer.done()
        await port.accept(Echo)
        async with asyncio.timeout(10):
            answer: bytes = await asker.answer
        transport.close()
        port.close()
        return answer

    assert asyncio.run(scenario()) == b"hello"


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_a_response_does_not_wait_for_an_acknowledgement(host: str) -> None:
    """Of the response before it: Nagle's algorithm and delayed acknowledgements take 40 ms."""

    class Inspected(Echo):
        no_delay = 0

        def data_received(self, data: bytes) -> None:
            own = self.transport.get_extra_info("socket")
            Inspected.no_delay = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            super().data_received(data)

    async def scenario() -> None:
        net = SocketNet()
        port = net.listen(host, 0)
        await port.accept(Inspected)
        transport, asker = await net.connect("127.0.0.1", port.address[1], Asker)
        async with asyncio.timeout(10):
            await asker.answer
        transport.close()
        port.close()

    asyncio.run(scenario())
    assert Inspected.no_delay


def test_a_port_that_is_taken_is_named() -> None:
    net = SocketNet()
    port = net.listen("127.0.0.1", 0)
    host, number = port.address
    with pytest.raises(OSError, match=rf"cannot listen at {host}:{number}: Address already in use"):
        net.listen(host, number)
    port.close()
    net.listen(host, number).close()


def test_a_connection_to_a_closed_port_is_refused() -> None:
    async def scenario() -> None:
        net = SocketNet()
        port = net.listen("127.0.0.1", 0)
        port.close()
        with pytest.raises(ConnectionRefusedError):
            await net.connect(*port.address, Asker)

    asyncio.run(scenario())


@pytest.mark.parametrize(("host", "address"), [("localhost", "127.0.0.1"), ("a.invalid", None)])
def test_host_names_are_looked_up_apart_from_the_event_loop(host: str, address: str | None) -> None:
    async def look_up() -> str | None:
        found: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        SocketNet().resolve(host, found.set_result)
        assert not found.done()
        return await found

    assert asyncio.run(look_up()) == address


class RecordingNet(MemoryNet):
    """Records the options of the sockets that listen."""

    def __init__(self) -> None:
        super().__init__()
        self.options: list[SocketOptions] = []

    def listen(self, host: str, port: int, options: SocketOptions = SOCKET_DEFAULTS) -> MemoryPort:
        self.options.append(options)
        return super().listen(host, port, options)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, SocketOptions(102_400, -1, 1024)),
        (
            {"socket.receive.buffer.bytes": "65536", "socket.listen.backlog.size": "7"},
            SocketOptions(102_400, 65_536, 7),
        ),
        (
            {"socket.receive.buffer.bytes": "-1", "socket.send.buffer.bytes": "-1"},
            SocketOptions(-1, -1, 1024),
        ),
    ],
)
def test_listening_sockets_have_the_configured_sizes(
    settings: dict[str, str], options: SocketOptions
) -> None:
    net, config = RecordingNet(), BrokerConfig.of(settings)
    Bindings(net).add(config, Pipeline()).bind(listeners(config).bound)
    assert net.options == [options]


def test_accepted_sockets_have_the_sizes_of_the_listening_one() -> None:
    net = SocketNet()
    port = net.listen("127.0.0.1", 0, SocketOptions(receive_buffer_bytes=40_000))
    with socket.create_connection(port.address):
        accepted, _ = port._socket.accept()
        with accepted:
            # Linux doubles what is asked for.
            size_bytes = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            assert size_bytes in (40_000, 80_000)
    port.close()
