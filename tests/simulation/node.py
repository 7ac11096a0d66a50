"""A node in the simulation: it starts, crashes at any operation of its disk, and restarts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from tests.memory_transport import Address
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from tests.simulation.loop import NodeClock, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.trace import Trace
from wirekafka.broker import Broker
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.replication.raft.metadata_log import Sync, sync_inline
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.node import Node, Platform
from wirekafka.server.tiering.work import Run
from wirekafka.tiered.store import Store

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
    """A real `Node`, or `ControllerNode`, on a host of its own.

    `outcome` is what its next crash leaves of unsynced writes.
    """

    def __init__(self, network: Network, name: str, random: Random, settings: dict[str, str]):
        self.name = name
        self.trace: Trace = network.trace
        self.config = BrokerConfig.of(
            {"listeners": f"PLAINTEXT://{name}:{PORT}", **_SETTINGS, **settings}
        )
        self.loop: VirtualLoop = network.loop
        self.host = network.host(name)
        self.random = random
        self.disk = self.new_disk(random.getrandbits(32))
        self.process: Process | None = None
        """The running process, which may still be starting; None while there is none."""
        self.clock = NodeClock(self.loop)
        self._node: Node | ControllerNode | None = None
        self.cluster_id: str | None = None
        """The cluster id of a new log directory; None: the node generates one."""
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
    def node(self) -> Node | ControllerNode:
        """The node, once it has started."""
        assert self._node is not None, "the node is down"
        return self._node

    @property
    def broker(self) -> Broker:
        assert isinstance(self._node, Node), "the node is down"
        return self._node.broker

    async def start(self) -> None:
        """Start, and start again after each crash that was scheduled during the start."""
        while not await self.run_once():
            self.recover()

    async def run_once(self) -> bool:
        """Start a process; returns whether it serves, rather than having crashed before."""
        process = self._new_process()
        node = self._new_node()
        self.opening(node)
        starting = process.create_task(node.start())
        await asyncio.wait((starting, process.died), return_when=asyncio.FIRST_COMPLETED)
        if process.is_dead:
            return False
        try:
            starting.result()
        except Exception:
            self._ended()
            raise
        self._node = node
        self.trace.note(f"{self.name} up")
        return True

    async def stop(self) -> None:
        """Stop cleanly, or crash during the stop."""
        if not await self.stop_once():
            self.recover()

    async def stop_once(self) -> bool:
        """Stop; returns whether that was clean, rather than cut short by a crash."""
        node, process = self._node, self.process
        assert node is not None and process is not None
        stopping = process.create_task(node.stop())
        await asyncio.wait((stopping, process.died), return_when=asyncio.FIRST_COMPLETED)
        if process.is_dead:
            return False
        stopping.result()
        self._ended()
        self.trace.note(f"{self.name} down")
        return True

    def crash(self) -> None:
        """Crash between two operations."""
        self.disk.is_dead = True
        self._crashed()

    def crash_soon(self, operations: int) -> None:
        """Crash at this number of disk operations from now; not at all if it is negative."""
        self.disk.crash_at = self.disk.operations + operations if operations >= 0 else -1

    def files(self) -> dict[str, bytes]:
        """The files on its disk."""
        return self.disk.files()

    def recover(self) -> None:
        """Replace the disk by what the crash left of it."""
        survivor = self.disk.after_crash(self.outcome, self.random.getrandbits(32))
        self.disk = self.new_disk(self.random.getrandbits(32))
        self.disk.root = survivor.root

    def new_disk(self, seed: int) -> MortalDisk:
        """An empty disk."""
        return MortalDisk(seed)

    def opening(self, node: Node | ControllerNode) -> None:
        """Called with each new node before it starts."""

    def new_clock(self) -> NodeClock:
        """The clock of a new process."""
        return NodeClock(self.loop)

    def sync(self) -> Sync:
        """Runs the syncs of the metadata log."""
        return sync_inline

    def store(self) -> tuple[Store | None, Run | None]:
        """The object store of a new process, and what runs the requests to it."""
        return None, None

    def _new_process(self) -> Process:
        self.process = self.host.process = process = Process(self.loop)
        self.disk.on_crash = self._crashed
        self.clock = self.new_clock()
        return process

    def _new_node(self) -> Node | ControllerNode:
        clock, disk = self.clock, self.disk
        store, store_run = self.store()
        platform = Platform(
            clock=lambda: clock,
            disk=lambda: disk,
            net=self.host,
            new_id=partial(self.random.randbytes, 16),
            recover=None,
            sync=self.sync(),
            cluster_id=self.cluster_id,
            store=store,
            store_run=store_run,
        )
        has_broker = "broker" in self.config.process_roles
        return Node(self.config, platform) if has_broker else ControllerNode(self.config, platform)

    def _crashed(self) -> None:
        self.trace.note(f"{self.name} crash {self.outcome.name} at {self.disk.operations}")
        self.crashes[self.outcome.name] += 1
        self._ended()
        self.host.crash()

    def _ended(self) -> None:
        self._node = None
        self.clock.is_dead = True
        if self.process is not None:
            self.process.end()
        self.process = self.host.process = None


def new_loop() -> VirtualLoop:
    """A loop that does not report the exceptions of a crashed node."""
    loop = VirtualLoop()
    loop.set_exception_handler(_report_all_but_crashes)
    return loop


def _report_all_but_crashes(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)
