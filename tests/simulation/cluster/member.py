"""A node of a simulated cluster: it is started again after each end; its disk and clock stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.simulation.cluster.shape import CLUSTER_ID, NodeSpec, Shape, format_directory
from tests.simulation.disk import Outcome
from tests.simulation.loop import NodeClock
from tests.simulation.network import Network
from tests.simulation.node import MortalDisk, SimulatedNode
from tests.simulation.process import CURRENT
from wirekafka.errors import KafkaError
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.replication.raft.metadata_log import Sync
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.replication.raft.raft import Raft
from wirekafka.server.controller_node import ControllerNode
from wirekafka.server.controllers.local_source import LocalSource
from wirekafka.server.controllers.remote_source import RemoteSource
from wirekafka.server.node import Node

DATA = "/data"


class ObservedDisk(MortalDisk):
    """A disk that reports what is appended to its files."""

    on_append: Callable[[str, bytes], None] = staticmethod(lambda path, data: None)

    def appended(self, path: str, data: bytes) -> None:
        self.on_append(path, data)


class Member(SimulatedNode):
    """One node of a cluster; `supervise` keeps it running until `down_s` says otherwise."""

    def __init__(self, network: Network, spec: NodeSpec, shape: Shape, random: Random):
        self.on_append: Callable[[Member, str, bytes], None] = lambda member, path, data: None
        """Called after each append to a file."""
        super().__init__(network, spec.name, random, shape.settings(spec))
        self.spec = spec
        self.id = spec.id
        self.life = 0
        self.has_crashed = False
        self.down_s = 0.0
        """How long the node stays down after its next end."""
        self.skew_ms = 0
        self.clock_rate = 1.0
        self.slow_io = 0.0
        """The probability that a sync takes long."""
        self.on_failure: Callable[[Member, Exception | None], None] = lambda member, error: None
        """Called when the node reports a failure after which it has to be stopped."""
        self._starting: Node | ControllerNode | None = None
        self._restart: asyncio.Event = asyncio.Event()
        if shape.is_dynamic:
            format_directory(
                self.disk, DATA, self.id, shape.voters if self.id in shape.voters else ()
            )
            self.disk.root = self.disk.copy().root
            self.disk.locks.clear()
        else:
            self.cluster_id = CLUSTER_ID

    @property
    def source(self) -> LocalSource | RemoteSource | None:
        """The node's metadata, also while it is starting; None before that is open."""
        node = self._starting
        if self.process is None or node is None:
            return None
        if isinstance(node, ControllerNode):
            return node._opened
        broker = getattr(node, "broker", None)
        return getattr(broker, "source", None)

    @property
    def log(self) -> QuorumLog | None:
        """The metadata log; None before it is open."""
        source = self.source
        return None if source is None else source.log  # type: ignore[return-value]

    @property
    def raft(self) -> Raft | None:
        """The node's part in the quorum; None before it is open."""
        source = self.source
        if isinstance(source, LocalSource):
            return source.controller.raft
        return None if source is None else source._raft

    @property
    def image(self) -> tuple[MetadataImage, int] | None:
        """The committed metadata, and the offset up to which it goes."""
        node = self._starting
        if self.source is None:
            return None
        published = node._published if isinstance(node, ControllerNode) else node.broker.metadata  # type: ignore[union-attr]
        return published.image, published.end_offset

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller, as far as it knows."""
        raft = self.raft
        return raft is not None and raft.is_leader

    def leads(self, topic: str, index: int) -> bool:
        """Whether this node leads a partition, as far as it knows."""
        broker = getattr(self._starting, "broker", None)
        partition = None if broker is None else broker.partitions.get((topic, index))
        return partition is not None and partition.is_leader

    async def supervise(self) -> None:
        """Start the node, and again after each end."""
        while True:
            try:
                await self.run_once()
            except KafkaError as error:
                self.trace.note(f"{self.name} does not start: {error}")
                self.down_s = 1.0
            process = self.process
            if process is not None:
                await asyncio.wait([process.died])
            if self.has_crashed:
                self.recover()
            down_s, self.down_s = self.down_s, 0.0
            self._restart.clear()
            try:
                async with asyncio.timeout(down_s):
                    await self._restart.wait()
            except TimeoutError:
                pass

    def start_now(self) -> None:
        """End the time that the node is to stay down."""
        self._restart.set()

    def end(self, outcome: Outcome) -> None:
        """End its process at once, unless there is none."""
        if self.process is not None:
            self.outcome = outcome
            self.crash()

    def jump(self, by_ms: int) -> None:
        """Set its wall clock forward or back."""
        self.trace.note(f"{self.name} clock jumps by {by_ms} ms")
        self.skew_ms += by_ms
        self.clock.offset_ms += by_ms

    def drift(self, rate: float) -> None:
        """Let its clock go faster or slower than true time from now on."""
        self.trace.note(f"{self.name} clock goes at {rate}")
        elapsed_ms = self.loop.time() * 1000
        self.skew_ms += int(elapsed_ms * (self.clock_rate - rate))
        self.clock.offset_ms += int(elapsed_ms * (self.clock.rate - rate))
        self.clock_rate = self.clock.rate = rate

    def pause(self) -> None:
        """Stop its process as SIGSTOP does."""
        if self.process is not None:
            self.trace.note(f"{self.name} paused")
            self.process.pause()

    def resume(self) -> None:
        """Let it continue."""
        if self.process is not None and self.process.is_paused:
            self.trace.note(f"{self.name} continues")
            self.loop.resume(self.process)

    def new_disk(self, seed: int) -> MortalDisk:
        disk = ObservedDisk(seed)
        disk.on_append = lambda path, data: self.on_append(self, path, data)  # type: ignore[method-assign]
        return disk

    def opening(self, node: Node | ControllerNode) -> None:
        self.life += 1
        self._starting = node
        assert self.process is not None
        self.process.io_delay_s = self._io_delay_s
        node.on_failure = lambda: self._failed(node)

    def recover(self) -> None:
        super().recover()
        self.has_crashed = False

    def new_clock(self) -> NodeClock:
        return NodeClock(self.loop, self.skew_ms, self.clock_rate)

    def sync(self) -> Sync:
        return self._sync

    def _sync(self, run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a sync of the metadata log a little later, as a thread does."""
        assert CURRENT.get() is self.process

        def finish() -> None:
            try:
                run()
            except OSError as error:
                done(error)
            else:
                done(None)

        self.loop.call_later(self._io_delay_s(), finish)

    def _io_delay_s(self) -> float:
        if self.random.random() < self.slow_io:
            return self.random.uniform(0.05, 2)
        return self.random.expovariate(1_000)

    def _failed(self, node: Node | ControllerNode) -> None:
        self.on_failure(self, node.failure)
        self.end(Outcome.ALL_KEPT)

    def _crashed(self) -> None:
        self.has_crashed = True
        super()._crashed()
