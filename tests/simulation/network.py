"""A network in memory: it delays, cuts and copies connections, and keeps order only within one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tests.simulation.loop import VirtualLoop
from tests.simulation.trace import Trace


class Client(Protocol):
    """The side that connected."""

    def received(self, data: bytes) -> None: ...

    def lost(self) -> None: ...


@dataclass(slots=True)
class Weather:
    """How bad the network is; probabilities are per connection or per piece of data."""

    slow: float = 0.02
    """That a piece takes seconds instead of a millisecond."""
    torn: float = 0.1
    """That a piece arrives in two."""
    copied: float = 0.0
    """That what a connection says arrives once more, over another one."""


class Network:
    """Connections to one node, by whatever `accept` makes of a new one; None: nobody listens."""

    def __init__(self, loop: VirtualLoop, random: Random, trace: Trace):
        self.loop = loop
        self.random = random
        self.trace = trace
        self.weather = Weather()
        self.accept: Callable[[], asyncio.BufferedProtocol] | None = None
        self.links: dict[int, Link] = {}
        self._serial = 0

    def connect(self, client: Client, *, may_linger: bool) -> Link:
        """A connection. Raises ConnectionRefusedError.

        With `may_linger`, what was under way when the client lost it, or a copy of all that was
        sent, may still arrive.
        """
        if self.accept is None:
            raise ConnectionRefusedError
        link = self._open(client, may_linger=may_linger)
        if may_linger and self.random.random() < self.weather.copied:
            link.copy = self._open(_Nobody(), may_linger=False)
        return link

    def cut_one(self) -> None:
        """Break some connection, in one of the ways in which connections break."""
        links = [link for link in self.links.values() if link.is_up]
        if not links:
            return
        link = self.random.choice(links)
        how = self.random.choice([link.cut, link.cut, link.silence, link.linger])
        self.trace.note(f"{how.__name__} {link.number}")
        how()

    def drop_all(self) -> None:
        """The node has died: every peer is told, in some order."""
        for link in list(self.links.values()):
            link.cut()

    def heal(self) -> None:
        """From now on nothing goes wrong; what was silenced is cut."""
        self.weather = Weather(slow=0, torn=0, copied=0)
        for link in list(self.links.values()):
            if link.to_client.is_silent:
                link.cut()

    def _open(self, client: Client, *, may_linger: bool) -> Link:
        assert self.accept is not None
        self._serial += 1
        link = Link(self, self._serial, client, may_linger=may_linger)
        self.links[link.number] = link
        link.open(self.accept())
        return link


class _Nobody:
    def received(self, data: bytes) -> None: ...

    def lost(self) -> None: ...


class Link:
    """One connection, and all that is under way on it."""

    def __init__(self, network: Network, number: int, client: Client, *, may_linger: bool):
        self.number = number
        self.may_linger = may_linger
        self.is_up = True
        self.copy: Link | None = None
        self._network = network
        self._client: Client | None = client
        self.transport = NodeTransport(self, network.loop)
        self.to_node = Direction(network, f"{number}>", self.transport.feed)
        self.to_client = Direction(network, f"{number}<", self._received)

    def open(self, protocol: asyncio.BufferedProtocol) -> None:
        """Have the node take it in."""
        self.transport.protocol = protocol
        protocol.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """What the client writes."""
        if self.is_up:
            self.to_node.send(data)
            if self.copy is not None:
                self.copy.send(data)

    def close(self) -> None:
        """The client is done with it."""
        self._client = None
        self.is_up = False
        self.to_client.stop()
        self.to_node.end(self.transport.vanish)
        if self.copy is not None:
            self.copy.close()

    def cut(self) -> None:
        """Both ends see it break; nothing under way arrives."""
        self.to_node.stop()
        self.to_client.stop()
        self.transport.vanish()
        self._tell_client()

    def silence(self) -> None:
        """Nothing reaches the client any more, and nothing tells it so."""
        self.to_client.is_silent = True

    def linger(self) -> None:
        """The client sees it break; what it sent arrives all the same, late."""
        if not self.may_linger:
            self.cut()
            return
        self.to_client.stop()
        self.to_node.hold(self._network.random.uniform(0, 8))
        self.to_node.end(self.transport.vanish)
        self._tell_client()

    def node_closed(self) -> None:
        """The node is done with it: the client learns of it after all that was written."""
        self.to_node.stop()
        self.to_client.end(self._tell_client)

    def gone(self) -> None:
        """The node's end is closed."""
        self._network.links.pop(self.number, None)

    def _received(self, data: bytes) -> None:
        if self._client is not None:
            self._client.received(data)

    def _tell_client(self) -> None:
        self.is_up = False
        client, self._client = self._client, None
        if client is not None:
            self._network.loop.call_soon(client.lost)


class Direction:
    """One way of a connection: bytes arrive in order, late."""

    def __init__(self, network: Network, name: str, deliver: Callable[[bytes], None]):
        self._network = network
        self._name = name
        self._deliver = deliver
        self._under_way: deque[bytes | Callable[[], None]] = deque()
        self._last_s = 0.0
        self._held_until_s = 0.0
        self._is_stopped = False
        self.is_silent = False

    def send(self, data: bytes) -> None:
        random, weather = self._network.random, self._network.weather
        if len(data) > 1 and random.random() < weather.torn:
            at = random.randrange(1, len(data))
            self._schedule(data[:at])
            data = data[at:]
        self._schedule(data)

    def end(self, callback: Callable[[], None]) -> None:
        """Call back after all that is under way has arrived."""
        self._schedule(callback)

    def hold(self, delay_s: float) -> None:
        """Nothing that has not arrived yet does so before then."""
        self._held_until_s = self._network.loop.time() + delay_s

    def stop(self) -> None:
        """Drop what is under way and what comes."""
        self._is_stopped = True

    def _schedule(self, piece: bytes | Callable[[], None]) -> None:
        network = self._network
        slow = network.random.random() < network.weather.slow
        latency_s = network.random.uniform(0.05, 3) if slow else network.random.expovariate(2000)
        self._last_s = max(self._last_s, network.loop.time() + latency_s)
        self._under_way.append(piece)
        network.loop.call_at(self._last_s, self._arrive)

    def _arrive(self) -> None:
        now_s = self._network.loop.time()
        if now_s < self._held_until_s:
            self._network.loop.call_at(self._held_until_s, self._arrive)
            return
        piece = self._under_way.popleft()
        if callable(piece):
            piece()
        elif not self._is_stopped and not self.is_silent:
            self._network.trace.moved(now_s, self._name, piece)
            self._deliver(piece)


class _NoSocket:
    def fileno(self) -> int:
        return -1


class NodeTransport(asyncio.Transport):
    """The node's end, as `Connection` sees it."""

    def __init__(self, link: Link, loop: VirtualLoop):
        super().__init__()
        self.protocol: Any = None
        self._link = link
        self._loop = loop
        self._is_closing = False
        self._is_paused = False
        self._unread = bytearray()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return "10.0.0.1", 10_000 + self._link.number
        if name == "sockname":
            return "10.0.0.9", 9092
        return _NoSocket() if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        """Never nothing, or bytes would be sent past this."""
        return 1

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and data:
            self._link.to_client.send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def feed(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._unread += data
        while self._unread and not self._is_paused and not self._is_closing:
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(self._unread))
            buffer[:size] = self._unread[:size]
            del self._unread[:size]
            self.protocol.buffer_updated(size)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self.feed, b"")

    def close(self) -> None:
        if not self._is_closing:
            self._link.node_closed()
            self.vanish()

    def abort(self) -> None:
        if not self._is_closing:
            self._link.cut()

    def vanish(self) -> None:
        """The connection is no more."""
        if not self._is_closing:
            self._is_closing = True
            self._link.gone()
            self._loop.call_soon(self._lost)

    def kill(self) -> None:
        """The node's process is no more: nobody is there to be told."""
        self._is_closing = True
        self.protocol = None
        self._link.gone()

    def _lost(self) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(None)
