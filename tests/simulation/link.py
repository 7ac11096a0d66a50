"""One simulated connection: its two ends, and the data in flight between them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.memory_transport import Address, MemoryTransport

if TYPE_CHECKING:
    from tests.simulation.network import Host, Network
    from wirekafka.server.net import ProtocolFactory

_FIRST_CLIENT_PORT = 10_000


class Link:
    """A connection that one host opens to another."""

    def __init__(self, network: Network, source: Host, target: Host, port: int):
        self.number = network.new_number()
        self.copy: Link | None = None
        """Another connection, over which everything the client says arrives as well."""
        self._network = network
        self._source = source
        self._target = target
        self._port = port
        here = source.address, _FIRST_CLIENT_PORT + self.number
        there = target.address, port
        self.client = End(self, here, there)
        self.server = End(self, there, here)
        self.to_server = Direction(network, (source, target), f"{self.number}>", self.server.feed)
        self.to_client = Direction(network, (target, source), f"{self.number}<", self.client.feed)
        self._connected: asyncio.Future[Any] = network.loop.create_future()
        network.links[self.number] = self

    @property
    def is_up(self) -> bool:
        """Whether neither end has seen it break."""
        return not self.client.is_closing() and not self.server.is_closing()

    @property
    def is_silent(self) -> bool:
        return self.to_client.is_silent

    # Connecting.

    def open(self, protocol_factory: ProtocolFactory) -> asyncio.Future[Any]:
        """Connect to the other host; a future of the protocol or ConnectionRefusedError."""
        self._protocol_factory = protocol_factory
        self.to_server.signal(self._arrived)
        return self._connected

    def accepted(self, protocol_factory: ProtocolFactory) -> None:
        """The target's system accepts it; its process creates a protocol when it runs."""
        self.to_client.signal(self._made)
        self._target.run(self._serve, protocol_factory)

    def refused(self) -> None:
        """The target refuses it, since the port has no listener."""
        self.server.kill()
        self.to_client.signal(self._refused)

    def give_up(self) -> None:
        """The client stops waiting for it."""
        self._connected.cancel()
        self.client.abort()

    def vanished(self, end: End) -> None:
        """One end has seen it break."""
        if end is self.client and not self._connected.done():
            self._failed(ConnectionResetError())
        self.check_gone()

    # Closing and breaking.

    def cut(self) -> None:
        """Both ends see it break; data in flight is lost."""
        self.to_server.stop()
        self.to_client.stop()
        self.server.vanish()
        self.client.vanish()

    def silence(self) -> None:
        """From now on no data reaches the client, which does not notice."""
        self.to_client.is_silent = True

    def linger(self) -> None:
        """The client sees it break, but what it has sent still arrives, late."""
        if not self._source.lingers:
            self.cut()
            return
        self.to_client.stop()
        self.to_server.hold(self._network.random.uniform(0, 8))
        self.to_server.signal(self.server.vanish)
        self.client.vanish()

    def host_died(self, host: Host, *, is_heard: bool) -> None:
        """One host's process has ended; the other notices when it next sends something."""
        for end, at in ((self.client, self._source), (self.server, self._target)):
            if at is host and not end.is_closing():
                end.kill()
                if is_heard:
                    self.end_sent(end, loses_data=True)
                else:
                    self._ways(end)[1].stop()
        self.check_gone()

    def end_sent(self, end: End, *, loses_data: bool) -> None:
        """One end closes or aborts; the other sees that after the data in flight."""
        coming, going, other = self._ways(end)
        coming.stop()
        if loses_data or (going.is_cut and not self._source.lingers):
            going.stop()
        going.signal(other.vanish)
        if end is self.client and self.copy is not None:
            self.copy.client.close()

    def send(self, end: End, data: bytes) -> None:
        """Transmit what one end writes."""
        self._ways(end)[1].send(data)
        if end is self.client and self.copy is not None:
            self.copy.client.write(data)

    def resume(self) -> None:
        """Deliver again, if the way is no longer cut."""
        self.to_server.resume()
        self.to_client.resume()

    def check_gone(self) -> None:
        """Remove it from the network once both ends are closed."""
        if self.client.is_closing() and self.server.is_closing():
            self._network.links.pop(self.number, None)

    def call_soon(self, end: End, callback: Callable[..., None], *arguments: Any) -> None:
        """Call back in the process at one end."""
        network, host = self._network, self._source if end is self.client else self._target
        network.loop.call_soon(host.run, callback, *arguments, context=network.context)

    def _ways(self, end: End) -> tuple[Direction, Direction, End]:
        """The direction to an end, the direction from it, and the other end."""
        if end is self.client:
            return self.to_client, self.to_server, self.server
        return self.to_server, self.to_client, self.client

    def _arrived(self) -> None:
        port = self._target.port(self._port)
        if self.server.is_closing():
            return
        if port is None:
            self.refused()
        else:
            port.connected(self)

    def _serve(self, protocol_factory: ProtocolFactory) -> None:
        if self.server.is_closing():
            return
        self.server.protocol = protocol = protocol_factory()
        protocol.connection_made(self.server)
        self.server.feed(b"")

    def _made(self) -> None:
        self._source.run(self._make)

    def _make(self) -> None:
        if self.client.is_closing():
            return
        protocol = self._protocol_factory()
        self.client.protocol = protocol
        protocol.connection_made(self.client)
        if not self._connected.done():
            self._connected.set_result(protocol)

    def _refused(self) -> None:
        self.client.kill()
        self.check_gone()
        if not self._connected.done():
            self._failed(ConnectionRefusedError())

    def _failed(self, error: ConnectionError) -> None:
        self._connected.set_exception(error)
        self._connected.exception()  # Nobody awaits a duplicate connection.


class End(MemoryTransport):
    """One end of a link."""

    def __init__(self, link: Link, local: Address, peer: Address):
        super().__init__(local, peer)
        self._link = link

    def sent(self, data: bytes) -> None:
        self._link.send(self, data)

    def closed(self) -> None:
        self._link.end_sent(self, loses_data=False)

    def aborted(self) -> None:
        self._link.end_sent(self, loses_data=True)

    def vanish(self) -> None:
        super().vanish()
        self._link.vanished(self)

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        self._link.call_soon(self, callback, *arguments)


class Direction:
    """One direction of a connection: bytes arrive in order, delayed, and not while it is cut."""

    def __init__(
        self, network: Network, ends: tuple[Host, Host], name: str, deliver: Callable[[bytes], None]
    ):
        self._network = network
        self._source, self._target = ends[0].name, ends[1].name
        self._receiver = ends[1]
        self._name = name
        self._deliver = deliver
        self._under_way: deque[bytes | Callable[[], None]] = deque()
        self._last_s = 0.0
        self._held_until_s = 0.0
        self._stuck = 0
        """How many pieces are due but could not pass a cut."""
        self._is_stopped = False
        self.is_silent = False

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return self._network.is_cut(self._source, self._target)

    def send(self, data: bytes) -> None:
        random, faults = self._network.random, self._network.faults
        if len(data) > 1 and random.random() < faults.torn:
            at = random.randrange(1, len(data))
            self._schedule(data[:at])
            data = data[at:]
        self._schedule(data)

    def signal(self, callback: Callable[[], None]) -> None:
        """Call back after the time at which all data in flight arrives, even if it is lost."""
        self._schedule(callback)

    def hold(self, delay_s: float) -> None:
        """Delay everything that has not arrived yet."""
        self._held_until_s = self._network.loop.time() + delay_s

    def stop(self) -> None:
        """Drop the data in flight and all later data."""
        self._is_stopped = True

    def resume(self) -> None:
        """Deliver what was held up, unless the direction is cut."""
        network = self._network
        if self._stuck and not self.is_cut:
            stuck, self._stuck = self._stuck, 0
            self._last_s = max(self._last_s, network.loop.time() + self._latency_s())
            for _ in range(stuck):
                network.loop.call_at(self._last_s, self._arrive, context=network.context)

    def _schedule(self, piece: bytes | Callable[[], None]) -> None:
        network = self._network
        self._last_s = max(self._last_s, network.loop.time() + self._latency_s())
        self._under_way.append(piece)
        network.loop.call_at(self._last_s, self._arrive, context=network.context)

    def _latency_s(self) -> float:
        random = self._network.random
        is_slow = random.random() < self._network.faults.slow
        return random.uniform(0.05, 3) if is_slow else random.expovariate(2000)

    def _arrive(self) -> None:
        network = self._network
        now_s = network.loop.time()
        if now_s < self._held_until_s:
            network.loop.call_at(self._held_until_s, self._arrive, context=network.context)
            return
        if self.is_cut:
            self._stuck += 1
            return
        piece = self._under_way.popleft()
        if callable(piece):
            piece()
        elif not self._is_stopped and not self.is_silent:
            network.trace.moved(now_s, self._name, piece)
            self._receiver.run(self._deliver, piece)
