"""A node in the simulation: it starts, crashes at any operation of its disk, and restarts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.memory_transport import Address
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from tests.simulation.loop import NodeClock, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.trace import Trace
from wirekafka.broker import Broker
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.replication.metadata_log import sync_inline
from wirekafka.server.node import Node, Platform

PORT = 9092
_SETTINGS = {"log.dirs": "/data", "socket.request.max.bytes": str(1 << 20)}


class MortalDisk(SimulatedDisk):
    """A disk that reports its crash, and refuses every operation after it."""

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
        """Do nothing: space is unlimited, and adding up all files at every append would be slow."""

    def free_bytes(self, path: str) -> int:
        return self.capacity_bytes


class SimulatedNode:
    """A real `Node` on a host of its own. `outcome` is what its next crash leaves of unsynced
    writes."""

    def __init__(self, network: Network, name: str, random: Random, settings: dict[str, str]):
        self.name = name
        self._network = network
        self._trace: Trace = network.trace
        self._host = network.host(name)
        self._random = random
        self._config = BrokerConfig.of(
            {"listeners": f"PLAINTEXT://{name}:{PORT}", **_SETTINGS, **settings}
        )
        self._disk = MortalDisk(random.getrandbits(32))
        self._clock: NodeClock | None = None
        self._node: Node | None = None
        self.outcome = Outcome.ALL_KEPT
        self.crashes: Counter[str] = Counter()

    @property
    def address(self) -> Address:
        """Where its clients connect."""
        return self.name, PORT

    @property
    def is_up(self) -> bool:
        return self._node is not None

    @property
    def broker(self) -> Broker:
        assert self._node is not None, "the node is down"
        return self._node.broker

    async def start(self) -> None:
        """Start, and start again after each crash that was scheduled during the start."""
        while True:
            self._disk.on_crash = self._crashed
            disk, clock = self._disk, NodeClock(self._network.loop)
            self._clock = clock
            node = Node(
                self._config,
                Platform(
                    clock=lambda clock=clock: clock,  # type: ignore[misc]
                    disk=lambda disk=disk: disk,  # type: ignore[misc]
                    net=self._host,
                    new_id=lambda: self._random.randbytes(16),
                    recover=None,
                    sync=sync_inline,
                ),
            )
            try:
                await node.start()
            except Crash:
                self.recover()
                continue
            self._node = node
            self._trace.note(f"{self.name} up")
            return

    async def stop(self) -> None:
        """Stop cleanly, or crash during the stop."""
        node = self._node
        assert node is not None and self._clock is not None
        try:
            await node.stop()
        except Crash:
            self.recover()
            return
        self._node = None
        self._clock.is_dead = True
        self._trace.note(f"{self.name} down")

    def crash(self) -> None:
        """Crash between two operations."""
        self._disk.is_dead = True
        self._crashed()

    def crash_soon(self, operations: int) -> None:
        """Crash at this number of disk operations from now; not at all if it is negative."""
        self._disk.crash_at = self._disk.operations + operations if operations >= 0 else -1

    def files(self) -> dict[str, bytes]:
        """The files on its disk."""
        return self._disk.files()

    def recover(self) -> None:
        """Replace the disk by what the crash left of it."""
        survivor = self._disk.after_crash(self.outcome, self._random.getrandbits(32))
        self._disk = MortalDisk(self._random.getrandbits(32))
        self._disk.root = survivor.root

    def _crashed(self) -> None:
        self._trace.note(f"{self.name} crash {self.outcome.name} at {self._disk.operations}")
        self.crashes[self.outcome.name] += 1
        self._node = None
        if self._clock is not None:
            self._clock.is_dead = True
        self._host.crash()


def new_loop() -> VirtualLoop:
    """A loop that does not report the exceptions of a crashed node."""
    loop = VirtualLoop()
    loop.set_exception_handler(_report_all_but_crashes)
    return loop


def _report_all_but_crashes(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)
