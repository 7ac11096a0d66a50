"""A network of named hosts in memory: it delays, duplicates and loses connections' data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.memory_transport import Address
from tests.simulation.link import Link
from tests.simulation.loop import VirtualLoop
from tests.simulation.process import Process
from tests.simulation.trace import Trace
from wirekafka.server.net import SOCKET_DEFAULTS, ProtocolFactory, SocketOptions

_CONNECT_TIMEOUT_S = 10.0
_FIRST_FREE_PORT = 32_768


@dataclass(slots=True)
class NetworkFaults:
    """The faults of the network; probabilities are per connection or per piece of data."""

    slow: float = 0.02
    """The probability that a piece takes seconds instead of a millisecond."""
    torn: float = 0.1
    """The probability that a piece arrives in two parts."""
    copied: float = 0.0
    """The probability that a connection's data arrives again, over another connection."""


class Network:
    """Hosts, the connections between them, and which of them cannot reach which."""

    def __init__(self, loop: VirtualLoop, random: Random, trace: Trace):
        self.loop = loop
        self.random = random
        self.trace = trace
        self.context = copy_context()
        """In which the network does its work, whoever has sent the data."""
        self.faults = NetworkFaults()
        self.links: dict[int, Link] = {}
        """Every connection of which at least one end is there, by number."""
        self._hosts: dict[str, Host] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._serial = 0

    def host(self, name: str, *, lingers: bool = False) -> Host:
        """A new machine. With `lingers`, its data may arrive after it lost the connection, and
        again over another one."""
        assert name not in self._hosts, f"{name} is there already"
        host = self._hosts[name] = Host(self, name, len(self._hosts) + 1, lingers=lingers)
        return host

    @property
    def names(self) -> list[str]:
        """Of every host."""
        return list(self._hosts)

    def find(self, name: str) -> Host | None:
        """The machine with that name."""
        return self._hosts.get(name)

    # Links and partitions.

    def cut(self, source: str, target: str) -> None:
        """Hold up everything sent from one host to another until `mend`, as TCP retransmits."""
        self.trace.note(f"cut {source} -> {target}")
        self._cuts.add((source, target))

    def mend(self, source: str, target: str) -> None:
        """Deliver what was held up by `cut`, and everything sent from now on."""
        if (source, target) in self._cuts:
            self.trace.note(f"mend {source} -> {target}")
            self._cuts.remove((source, target))
            for link in tuple(self.links.values()):
                link.resume()

    def part(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Cut both directions between every host of one group and every host of another."""
        others = list(others)
        for one in some:
            for other in others:
                self.cut(one, other)
                self.cut(other, one)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def break_one(self) -> None:
        """Break a random connection in a random way."""
        links = [link for link in self.links.values() if link.is_up]
        if not links:
            return
        link = self.random.choice(links)
        how = self.random.choice([link.cut, link.cut, link.silence, link.linger])
        self.trace.note(f"{how.__name__} {link.number}")
        how()

    def heal(self) -> None:
        """End all faults; connections that were silenced break."""
        self.faults = NetworkFaults(slow=0, torn=0, copied=0)
        for source, target in sorted(self._cuts):
            self.mend(source, target)
        for link in tuple(self.links.values()):
            if link.is_silent:
                link.cut()

    def new_number(self) -> int:
        self._serial += 1
        return self._serial


class Host:
    """One machine: the `Net` of a node, or the source of a client's connections."""

    def __init__(self, network: Network, name: str, number: int, *, lingers: bool):
        self.network = network
        self.name = name
        self.lingers = lingers
        self.process: Process | None = None
        """The process on this machine, whose connections these are; None for a client."""
        self.address = f"10.0.{number >> 8}.{number & 255}"
        self._ports: dict[int, SimulatedPort] = {}

    def listen(
        self, host: str, port: int, options: SocketOptions = SOCKET_DEFAULTS
    ) -> SimulatedPort:
        number = port or self._free_port()
        if number in self._ports:
            raise OSError(f"cannot listen at {host}:{port}: Address already in use")
        found = self._ports[number] = SimulatedPort(self, host or self.name, number)
        return found

    async def connect(
        self, host: str, port: int, protocol_factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, Any]:
        network = self.network
        target = network.find(host)
        if target is None:
            raise OSError(f"no such host: {host}")
        link = Link(network, self, target, port)
        if self.lingers and network.random.random() < network.faults.copied:
            link.copy = Link(network, self, target, port)
            link.copy.open(asyncio.Protocol)
        connected = link.open(protocol_factory)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                protocol = await connected
        except BaseException:
            link.give_up()
            raise
        return link.client, protocol

    def own_name(self) -> str:
        return self.name

    def resolve(self, host: str, done: Callable[[str | None], None]) -> None:
        done(None)

    def run(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call back in the process on this machine."""
        if self.process is None:
            callback(*arguments)
        else:
            self.process.run(callback, *arguments)

    def port(self, number: int) -> SimulatedPort | None:
        """Who listens there."""
        return self._ports.get(number)

    def free(self, port: int) -> None:
        """Remove the listener of a port."""
        self._ports.pop(port, None)

    def crash(self) -> None:
        """End the process: its ports become free, and its peers notice if they can be reached.

        In half of the cases the whole machine ends, which no peer notices.
        """
        self._ports.clear()
        is_heard = self.network.random.random() < 0.5
        for link in tuple(self.network.links.values()):
            link.host_died(self, is_heard=is_heard)

    def _free_port(self) -> int:
        number = _FIRST_FREE_PORT
        while number in self._ports:
            number += 1
        return number


class SimulatedPort:
    """A listening port; connections wait until it accepts."""

    def __init__(self, host: Host, name: str, number: int):
        self._host = host
        self._address = name, number
        self._protocol_factory: ProtocolFactory | None = None
        self._backlog: list[Link] = []

    @property
    def address(self) -> Address:
        return self._address

    async def accept(self, protocol_factory: ProtocolFactory) -> None:
        self._protocol_factory = protocol_factory
        backlog, self._backlog = self._backlog, []
        for link in backlog:
            link.accepted(protocol_factory)

    def connected(self, link: Link) -> None:
        """A connection has arrived."""
        if self._protocol_factory is None:
            self._backlog.append(link)
        else:
            link.accepted(self._protocol_factory)

    def close(self) -> None:
        if self._host.port(self._address[1]) is self:
            self._host.free(self._address[1])
        backlog, self._backlog = self._backlog, []
        for link in backlog:
            link.refused()
