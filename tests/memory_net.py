"""A network of one machine in memory, without delays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.memory_transport import Address, MemoryTransport
from wirekafka.server.net import SOCKET_DEFAULTS, ProtocolFactory, SocketOptions

_FIRST_CLIENT_PORT = 50_000


class MemoryNet:
    """A `Net` whose clients are `MemoryConnection`s; it needs no event loop."""

    def __init__(self) -> None:
        self._ports: dict[Address, MemoryPort] = {}
        self._connected = 0
        self.client_host = "127.0.0.1"
        """The address of the machine that new connections come from."""

    def listen(self, host: str, port: int, options: SocketOptions = SOCKET_DEFAULTS) -> MemoryPort:
        if (host, port) in self._ports:
            raise OSError(f"cannot listen at {host}:{port}: Address already in use")
        found = self._ports[host, port] = MemoryPort(self, (host, port))
        return found

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, Any]:
        raise ConnectionRefusedError(f"there is no other machine, {host}:{port} neither")

    def own_name(self) -> str:
        return "localhost"

    def resolve(self, host: str, done: Callable[[str | None], None]) -> None:
        done("127.0.0.1" if host == "localhost" else None)

    def open(self, address: Address) -> MemoryConnection:
        """A client's connection to a listener. Raises ConnectionRefusedError."""
        port = self._ports.get(address)
        if port is None or port.protocol_factory is None:
            raise ConnectionRefusedError(str(address))
        self._connected += 1
        connection = MemoryConnection(
            address, (self.client_host, _FIRST_CLIENT_PORT + self._connected % 10_000)
        )
        connection.protocol = port.protocol_factory()
        connection.protocol.connection_made(connection)
        return connection

    def free(self, address: Address) -> None:
        """Stop listening at an address."""
        self._ports.pop(address, None)


class MemoryPort:
    """A listening address."""

    def __init__(self, net: MemoryNet, address: Address):
        self._net = net
        self._address = address
        self.protocol_factory: ProtocolFactory | None = None

    @property
    def address(self) -> Address:
        return self._address

    async def accept(self, protocol_factory: ProtocolFactory) -> None:
        self.protocol_factory = protocol_factory

    def close(self) -> None:
        self._net.free(self._address)


class MemoryConnection(MemoryTransport):
    """A client and the broker's transport to it in one: `feed` is what the client sends."""

    def __init__(self, local: Address, peer: Address):
        super().__init__(local, peer)
        self.received = bytearray()
        """What the broker has sent."""
        self._is_feeding = False
        self._later: list[tuple[Any, tuple[Any, ...]]] = []

    def feed(self, data: bytes) -> None:
        self._is_feeding = True
        try:
            super().feed(data)
        finally:
            self._is_feeding = False
            later, self._later = self._later, []
            for callback, arguments in later:
                callback(*arguments)

    def hang_up(self) -> None:
        """Disconnect the client."""
        self.vanish()

    def sent(self, data: bytes) -> None:
        self.received += data

    def closed(self) -> None:
        pass

    def aborted(self) -> None:
        pass

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        """Call back at once, but not from within the protocol that is being fed."""
        if self._is_feeding:
            self._later.append((callback, arguments))
        else:
            callback(*arguments)
