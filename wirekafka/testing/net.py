"""The network between the nodes of a cluster under test, whose links can be cut and slowed."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from wirekafka.server.net import SOCKET_DEFAULTS, Port, ProtocolFactory, SocketNet, SocketOptions

BETWEEN_NODES = "NODES"
"""The name of the listener by which the brokers of a cluster under test reach each other."""

Address = tuple[str, int]


class ClusterLinks:
    """The links between the nodes of a cluster; used on their event loop only.

    Data sent over a cut link arrives once the link is healed, as TCP sends it again, or never, if
    the connection has been closed meanwhile.
    """

    def __init__(self) -> None:
        self._owners: dict[Address, int] = {}
        self._reserved: dict[Address, Port] = {}
        self._kept: dict[Address, socket.socket] = {}
        self._delays: dict[frozenset[int], float] = {}
        self._isolated: set[int] = set()
        self._paused: set[int] = set()
        self._wires: set[NodeConnection] = set()
        self._waiting: list[asyncio.Future[None]] = []

    def net(self, node_id: int) -> LinkedNet:
        """The network as one node sees it."""
        return LinkedNet(self, node_id)

    def reserve(self, node_id: int, host: str) -> int:
        """Bind a free port for a node that is started later, and return it. Raises OSError."""
        port = SocketNet().listen(host, 0)
        self._reserved[port.address] = port
        self._owners[port.address] = node_id
        return port.address[1]

    def close(self) -> None:
        """Free all ports that are kept for nodes."""
        for port in self._reserved.values():
            port.close()
        for kept in self._kept.values():
            kept.close()
        self._reserved.clear()
        self._kept.clear()

    # Faults.

    def isolate(self, node_id: int) -> None:
        """Cut the links of a node."""
        self._isolated.add(node_id)

    def heal(self, node_id: int) -> None:
        """Undo `isolate`."""
        self._isolated.discard(node_id)
        self._changed()

    def pause(self, node_id: int) -> None:
        """Let a node neither send nor receive."""
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Undo `pause`."""
        self._paused.discard(node_id)
        self._changed()

    def slow(self, ends: frozenset[int], seconds: float) -> None:
        """Delay data between two nodes by `seconds`; 0 is the normal network."""
        if seconds:
            self._delays[ends] = seconds
        else:
            self._delays.pop(ends, None)

    def reset(self) -> None:
        """End all faults."""
        self._isolated.clear()
        self._paused.clear()
        self._delays.clear()
        self._changed()

    # For the nets and their connections.

    def is_cut(self, ends: frozenset[int]) -> bool:
        """Whether nothing arrives on a link now."""
        return len(ends) > 1 and not ends.isdisjoint(self._isolated | self._paused)

    def delay_s(self, ends: frozenset[int]) -> float:
        """The delay in seconds of data sent over a link."""
        return self._delays.get(ends, 0.0)

    async def reached(self, ends: frozenset[int]) -> None:
        """Wait as long as a new connection over this link has to."""
        while self.is_cut(ends):
            healed = asyncio.get_running_loop().create_future()
            self._waiting.append(healed)
            await healed
        delay_s = self.delay_s(ends)
        if delay_s:
            await asyncio.sleep(delay_s)

    def owner(self, address: Address) -> int | None:
        """The node that listens at an address; None for an unknown address."""
        return self._owners.get(address)

    def bind(self, node_id: int, address: Address, options: SocketOptions) -> Port:
        """Bind the port of a node, which may have been kept for it. Raises OSError."""
        reserved = self._reserved.pop(address, None)
        if reserved is not None:
            return reserved
        kept = self._kept.pop(address, None)
        if kept is not None:
            kept.close()
        port = SocketNet().listen(*address, options)
        self._owners[port.address] = node_id
        return port

    def keep(self, address: Address) -> None:
        """Keep a port that is no longer listened at, so that nobody else gets it meanwhile."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        kept = socket.socket(family)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            kept.bind(address)
        except OSError:
            kept.close()
            return
        self._kept[address] = kept

    def add(self, wire: NodeConnection) -> None:
        self._wires.add(wire)

    def remove(self, wire: NodeConnection) -> None:
        self._wires.discard(wire)

    def _changed(self) -> None:
        for wire in tuple(self._wires):
            wire.pump()
        waiting = self._waiting
        self._waiting = []
        for healed in waiting:
            if not healed.done():
                healed.set_result(None)


class LinkedNet:
    """One node's `Net`: sockets, with the links of its cluster between it and other nodes."""

    def __init__(self, links: ClusterLinks, node_id: int):
        self._links = links
        self._node_id = node_id

    def listen(self, host: str, port: int, options: SocketOptions = SOCKET_DEFAULTS) -> KeptPort:
        bound = self._links.bind(self._node_id, (host, port), options)
        return KeptPort(bound, self._links)

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, Any]:
        target = self._links.owner((host, port))
        ends = frozenset({self._node_id} if target is None else {self._node_id, target})
        await self._links.reached(ends)
        wire = NodeConnection(self._links, ends)
        await asyncio.get_running_loop().create_connection(lambda: wire, host, port)
        protocol = protocol_factory()
        wire.begin(protocol)
        return wire.near, protocol

    def own_name(self) -> str:
        return SocketNet().own_name()

    def resolve(self, host: str, done: Callable[[str | None], None]) -> None:
        SocketNet().resolve(host, done)


class KeptPort:
    """A `Port` that nobody else gets when it is closed, for the next start of the node."""

    def __init__(self, port: Port, links: ClusterLinks):
        self._port = port
        self._links = links
        self._is_closed = False

    @property
    def address(self) -> Address:
        return self._port.address

    async def accept(self, protocol_factory: ProtocolFactory) -> None:
        await self._port.accept(protocol_factory)

    def close(self) -> None:
        self._port.close()
        if not self._is_closed:
            self._is_closed = True
            self._links.keep(self._port.address)


class NodeConnection(asyncio.Protocol):
    """One connection between two nodes: the protocol of its socket."""

    def __init__(self, links: ClusterLinks, ends: frozenset[int]):
        self.near = _NearEnd(self)
        """The transport for the node that has connected."""
        self.is_closing = False
        self._links = links
        self._ends = ends
        self._socket: asyncio.Transport | None = None
        self._protocol: Any = None
        self._outgoing = _Queue(self)
        self._incoming = _Queue(self)

    def begin(self, protocol: Any) -> None:
        """Deliver arriving data to this protocol from now on."""
        self._protocol = protocol
        protocol.connection_made(self.near)
        self._incoming.pump()

    def send(self, data: bytes) -> None:
        """Send bytes to the other node."""
        self._outgoing.put(partial(self._write, data))

    def finish(self) -> None:
        """Close the connection once all that was sent has left."""
        self.is_closing = True
        self._outgoing.put(self._close)

    def abort(self) -> None:
        """Close the connection at once; data on its way is lost."""
        self.is_closing = True
        if self._socket is not None:
            self._socket.abort()

    def pump(self) -> None:
        """Deliver the data that may arrive now."""
        self._outgoing.pump()
        self._incoming.pump()

    @property
    def delay_s(self) -> float:
        """The delay in seconds of data sent now."""
        return self._links.delay_s(self._ends)

    @property
    def is_held(self) -> bool:
        """Whether nothing arrives now."""
        return self._protocol is None or self._links.is_cut(self._ends)

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self._links.add(self)

    def data_received(self, data: bytes) -> None:
        self._incoming.put(partial(self._deliver, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._links.remove(self)
        self._outgoing.drop()
        self._incoming.drop()
        if self._protocol is not None and not self.is_closing:
            # The node that was connected to is gone: this is noticed even over a cut link, as its
            # requests would otherwise wait for their timeouts.
            self.is_closing = True
            self._protocol.connection_lost(exc)

    def _write(self, data: bytes) -> None:
        if self._socket is not None:
            self._socket.write(data)

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _deliver(self, data: bytes) -> None:
        if self.is_closing:
            return
        view = memoryview(data)
        while view:
            buffer = self._protocol.get_buffer(len(view))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            self._protocol.buffer_updated(count)
            view = view[count:]


class _NearEnd(asyncio.Transport):
    """The transport of a `NodeConnection`, as the connecting node sees it."""

    def __init__(self, wire: NodeConnection):
        super().__init__()
        self._wire = wire

    def write(self, data: Any) -> None:
        self._wire.send(bytes(data))

    def is_closing(self) -> bool:
        return self._wire.is_closing

    def close(self) -> None:
        self._wire.finish()

    def abort(self) -> None:
        self._wire.abort()


class _Queue:
    """The data on its way in one direction, in order."""

    def __init__(self, wire: NodeConnection):
        self._wire = wire
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, deliver: Callable[[], None]) -> None:
        due_s = asyncio.get_running_loop().time() + self._wire.delay_s
        self._waiting.append((due_s, deliver))
        self.pump()

    def pump(self) -> None:
        """Deliver due data, unless the link is cut."""
        loop = asyncio.get_running_loop()
        while self._waiting and not self._wire.is_held:
            due_s, deliver = self._waiting[0]
            if due_s > loop.time():
                if self._timer is None:
                    self._timer = loop.call_at(due_s, self._ring)
                return
            self._waiting.popleft()
            deliver()

    def drop(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self.pump()
