"""A broker in the simulation: it starts, crashes at any operation on its disk, and comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from tests.simulation.loop import NodeClock, VirtualLoop
from tests.simulation.network import Network, NodeTransport
from tests.simulation.trace import Trace
from wirekafka.apis import registry
from wirekafka.apis.registry import Call
from wirekafka.broker import Broker, Foundation
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.registration import Endpoint
from wirekafka.server import dispatch
from wirekafka.server.connection import Connection, Inbox
from wirekafka.server.housekeeping import Housekeeping

_REQUEST_LIMIT_BYTES = 1 << 20


class MortalDisk(SimulatedDisk):
    """Tells when it crashes, and does nothing more for those who come after."""

    on_crash: Callable[[], None] | None = None
    is_dead = False

    def operation(self, what: str) -> None:
        if self.is_dead:
            raise Crash(what)
        if self.operations == self.crash_at:
            self.is_dead = True
            if self.on_crash is not None:
                self.on_crash()
        super().operation(what)

    def require_space(self, size_bytes: int, path: str) -> None:
        """There always is some; adding up all files for every append takes its time."""

    def free_bytes(self, path: str) -> int:
        return self.capacity_bytes


class SimulatedNode:
    """One node. `outcome` is what its next crash leaves of what was not synced."""

    def __init__(self, network: Network, random: Random, trace: Trace, settings: dict[str, str]):
        registry.load()
        self._network = network
        self._random = random
        self._trace = trace
        self._config = BrokerConfig.of({"log.dirs": "/data", **settings})
        self._disk = MortalDisk(random.getrandbits(32))
        self._life: _Life | None = None
        self.outcome = Outcome.ALL_KEPT
        self.crashes: Counter[str] = Counter()

    @property
    def is_up(self) -> bool:
        return self._life is not None

    @property
    def broker(self) -> Broker:
        assert self._life is not None, "the node is down"
        return self._life.broker

    async def start(self) -> None:
        """Come up, crashing on the way as often as was arranged for."""
        while True:
            self._disk.on_crash = self._crashed
            clock = NodeClock(self._network.loop)
            try:
                life = _Life(self._foundation(clock), clock)
                await life.join()
            except Crash:
                clock.is_dead = True
                self._disk = self._left_over()
                continue
            self._life = life
            self._network.accept = partial(Connection, life)  # type: ignore[arg-type]
            self._trace.note("up")
            return

    async def stop(self) -> None:
        """Stop in order."""
        life, self._life = self._life, None
        assert life is not None
        self._network.accept = None
        life.housekeeping.stop()
        life.broker.release_waiting()
        for connection in tuple(life.connections):
            connection.drain()
        await asyncio.sleep(0.2)
        for connection in tuple(life.connections):
            connection.abort()
        await life.broker.stop()
        life.clock.is_dead = True
        self._trace.note("down")

    def crash(self) -> None:
        """Crash between two operations."""
        self._disk.is_dead = True
        self._crashed()

    def crash_soon(self, operations: int) -> None:
        """Crash at the so-maniest operation on the disk from now."""
        self._disk.crash_at = self._disk.operations + operations

    def files(self) -> dict[str, bytes]:
        """All that is on its disk."""
        return self._disk.files()

    def recover(self) -> None:
        """Have the disk that the crash left."""
        self._disk = self._left_over()

    def _crashed(self) -> None:
        self._trace.note(f"crash {self.outcome.name} at {self._disk.operations}")
        self.crashes[self.outcome.name] += 1
        life, self._life = self._life, None
        self._network.accept = None
        if life is not None:
            life.clock.is_dead = True
            for transport in life.transports():
                transport.kill()
            self._network.drop_all()

    def _left_over(self) -> MortalDisk:
        survivor = self._disk.after_crash(self.outcome, self._random.getrandbits(32))
        disk = MortalDisk(self._random.getrandbits(32))
        disk.root = survivor.root
        return disk

    def _foundation(self, clock: NodeClock) -> Foundation:
        return Foundation(
            config=self._config,
            clock=clock,
            disk=self._disk,
            new_id=lambda: self._random.randbytes(16),
        )


class _Life:
    """One run of the node's process; to its connections it is their listener."""

    def __init__(self, foundation: Foundation, clock: NodeClock):
        self.clock = clock
        self.inbox = Inbox()
        self.serve = dispatch.serve
        self.request_limit_bytes = _REQUEST_LIMIT_BYTES
        self.connections: dict[Connection, NodeTransport] = {}
        self.broker = Broker(foundation)
        self.housekeeping = Housekeeping(self.broker, [])

    async def join(self) -> None:
        await self.broker.join([], [Endpoint("PLAINTEXT", "node", 9092)])
        self.housekeeping.start()

    def transports(self) -> list[NodeTransport]:
        return list(self.connections.values())

    def accept(self, connection: Connection, transport: asyncio.Transport) -> Call | None:
        assert isinstance(transport, NodeTransport)
        self.connections[connection] = transport
        _, port = transport.get_extra_info("peername")
        return Call(self.broker, client_host="/10.0.0.1", connection_id=str(port))

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)


def new_loop() -> VirtualLoop:
    """A loop that takes a crashed node's unwinding for what it is."""
    loop = VirtualLoop()
    loop.set_exception_handler(_tell_all_but_crashes)
    return loop


def _tell_all_but_crashes(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)
