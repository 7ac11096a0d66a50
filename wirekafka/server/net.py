"""`Net`: the addresses at which a node listens and the connections that it opens.

`SocketNet` uses the operating system; a simulation replaces it with a simulated network. Tasks,
timers and threads belong to the event loop, which a simulation replaces as a whole.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from wirekafka.config.address import Address
from wirekafka.server.descriptors import DESCRIPTORS, EXHAUSTED

_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 64
_PAUSE_S = 0.1
"""How long no connection is accepted after one could not be, for lack of descriptors."""


class SocketOptions(NamedTuple):
    """Buffer sizes of a listening socket and of its connections; -1 is the system's default."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = _BACKLOG
    """How many connections the system holds before they are accepted."""


SOCKET_DEFAULTS = SocketOptions()

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
"""Creates the asyncio protocol of a new connection."""


class Port(Protocol):
    """A bound, listening address. Clients that connect wait until `accept` is called."""

    @property
    def address(self) -> tuple[str, int]:
        """The bound host and port; the actual port where 0 was requested."""

    async def accept(self, protocol_factory: ProtocolFactory) -> None:
        """Accept waiting and future connections, each with a protocol from the factory."""

    def close(self) -> None:
        """Free the address; established connections go on."""


class Net(Protocol):
    """One node's access to the network."""

    def listen(self, host: str, port: int, options: SocketOptions = SOCKET_DEFAULTS) -> Port:
        """Bind an address; an empty host is every address of the machine, port 0 any free port.

        Raises OSError with a message that names the address.
        """

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, Any]:
        """Connect; returns the transport and its protocol. Raises OSError."""

    def own_name(self) -> str:
        """A host name of this machine that it can resolve itself, else `localhost`."""

    def resolve(self, host: str, done: Callable[[str | None], None]) -> None:
        """Look a host name up, and call back with its first address, as Java does; or with None."""


class SocketPort:
    """A listening socket, served by the running event loop once `accept` is called."""

    def __init__(self, bound: socket.socket, backlog: int = _BACKLOG):
        self._socket = bound
        self._address: tuple[str, int] = bound.getsockname()[:2]
        self._protocol_factory: ProtocolFactory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: set[asyncio.Task[Any]] = set()

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    async def accept(self, protocol_factory: ProtocolFactory) -> None:
        # Not by the loop's `create_server`: uvloop accepts thousands before it calls a protocol,
        # and closes the listening socket for good when descriptors are used up.
        self._protocol_factory = protocol_factory
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._go_on()

    def close(self) -> None:
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _go_on(self) -> None:
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def _accept_some(self) -> None:
        """Accept waiting connections, but not so many that established connections wait long."""
        assert self._loop is not None
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._socket.fileno() < 0:
                return
            try:
                accepted, _ = DESCRIPTORS.accept(self._socket.accept)
            except (BlockingIOError, InterruptedError):
                return  # Called again if others wait.
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._loop.remove_reader(self._socket.fileno())
                    self._loop.call_later(_PAUSE_S, self._go_on)
                return
            opening = self._loop.create_task(self._open(accepted))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        assert self._loop is not None
        try:
            accepted.setblocking(False)
            await self._loop.connect_accepted_socket(self._protocol_factory, accepted)
        except OSError:  # The client has gone.
            accepted.close()


class SocketNet:
    """TCP sockets of this machine."""

    def listen(self, host: str, port: int, options: SocketOptions = SOCKET_DEFAULTS) -> SocketPort:
        bound = _bind(host, port, options)
        # Accepted connections inherit it. uvloop sets it anyway, asyncio not on such sockets: a
        # second response would wait until the client acknowledges the first, 40 ms.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.send_buffer_bytes >= 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
        return SocketPort(bound, options.backlog)

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, Any]:
        return await asyncio.get_running_loop().create_connection(protocol_factory, host, port)

    def own_name(self) -> str:
        name = socket.gethostname()
        try:
            for family, kind, _, _, address in socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM):
                with socket.socket(family, kind) as probe:
                    probe.bind(address)  # Only addresses of this machine can be bound.
                    return name
        except OSError:
            pass
        return "localhost"

    def resolve(self, host: str, done: Callable[[str | None], None]) -> None:
        found = asyncio.get_running_loop().run_in_executor(None, _address, host)
        found.add_done_callback(lambda each: None if each.cancelled() else done(each.result()))


def _address(host: str) -> str | None:
    """An address of the host, IPv4 if it has one."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return str(found[0][4][0])


def _bind(host: str, port: int, options: SocketOptions) -> socket.socket:
    """A listening socket; an empty host is every IPv6 and IPv4 address of the machine."""
    try:
        return _bound(host, port, options)
    except OSError as error:
        raise cannot_listen(Address(host, port), error) from error


def _bound(host: str, port: int, options: SocketOptions) -> socket.socket:
    dual = host == "" and socket.has_dualstack_ipv6()
    bound = socket.socket(socket.AF_INET6 if dual or ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        if options.receive_buffer_bytes >= 0:
            # Set before `listen`: the window that connections negotiate depends on it.
            size_bytes = options.receive_buffer_bytes
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)
        bound.bind((host, port))
        bound.listen(options.backlog)
    except OSError:
        bound.close()
        raise
    return bound


def cannot_listen(address: Address, error: OSError, purpose: str = "") -> OSError:
    """An error with the address, which the system leaves out; `purpose` names the listener."""
    reason = error.strerror.partition(" (")[0] if error.strerror else str(error)
    return OSError(f"cannot listen at {address}{purpose and f' for {purpose}'}: {reason}")
