"""One seed of a cluster: nodes, clients and faults, then healing, and the checks."""

from __future__ import annotations

import asyncio
import logging
import random as global_random
import re
from collections.abc import Collection, Coroutine
from random import Random
from typing import Any

from tests.histories.checker import check
from tests.memory_transport import Address
from tests.simulation.cluster.checks import Checks
from tests.simulation.cluster.clients import Clients
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.health import Health
from tests.simulation.cluster.member import Member
from tests.simulation.cluster.shape import REPLICAS, NodeSpec, Shape
from tests.simulation.loop import Stuck, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.node import new_loop
from tests.simulation.simulation import LoggedErrors, Result, drain_all
from tests.simulation.trace import Trace
from tests.simulation.transactions import TIMEOUT_MS
from tests.simulation.wire import Wire
from tests.simulation.world import World
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC

_PATIENCE_S = 300
"""The virtual time within which every client must finish once all faults have ended."""
_HEALING_S = 90
"""The virtual time within which the cluster must be whole once all faults have ended."""
_EXPECTED = re.compile(
    "cannot be fetched from broker|The leaderships were not moved to other brokers"
    "|The shutdown was not recorded in the metadata log"
)
"""What nodes may log as errors while others fail."""


class Unhealed(Exception):
    """The cluster is not whole, though all faults have ended long ago."""


def simulate(seed: int, *, keeps_trace: bool = False, left_out: Collection[int] = ()) -> Result:
    """Run one seed from the beginning to the end, without the faults of these numbers."""
    return simulated(Simulation, seed, keeps_trace=keeps_trace, left_out=left_out)


def simulated(
    kind: type[Simulation], seed: int, *, keeps_trace: bool, left_out: Collection[int]
) -> Result:
    """Run one seed of a kind of simulation."""
    # Nodes draw the jitter of their retries from the process's generator.
    state = global_random.getstate()
    global_random.seed(seed)
    loop = new_loop()
    simulation = kind(seed, loop, Trace(keeps=keeps_trace, has_bytes=False), left_out)
    errors = LoggedErrors()
    logger = logging.getLogger("wirekafka")
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(errors)
    try:
        simulation.run_to_end()
        simulation.world.surprises += [
            each for each in errors.messages if not _EXPECTED.search(each)
        ]
        return simulation.result()
    finally:
        loop.on_turn = None
        logger.removeHandler(errors)
        logger.propagate = was_propagating
        loop.close()
        global_random.setstate(state)


class NeedsOperator(Exception):
    """A partition stays offline until an operator decides, so the seed ends early."""


class Simulation:
    """The course of one seed."""

    def __init__(self, seed: int, loop: VirtualLoop, trace: Trace, left_out: Collection[int] = ()):
        self.seed = seed
        self.loop = loop
        self.trace = trace
        # One random generator each, so that a further client does not change all the others.
        self.random = Random(f"cluster {seed}")
        self.network = Network(loop, Random(f"cluster network {seed}"), trace)
        self.shape = self.drawn_shape()
        self.members = {spec.id: self.new_member(spec) for spec in self.shape.specs}
        brokers = [each.address for each in self.members.values() if each.spec.is_broker]
        self.world = World(self.network, Random(f"clients {seed}"), brokers)
        for member in self.members.values():
            member.on_failure = self._failed
        self.world.is_deposed = self._is_deposed
        self._running: asyncio.Task[Any] | None = None
        self._supervisors: list[asyncio.Task[None]] = []
        self.is_healing = False
        """Set when all faults have ended."""
        self.health = Health(self)
        self.checks = self.new_checks()
        self.faults = self.new_faults(left_out)

    def drawn_shape(self) -> Shape:
        """The nodes, and their configuration."""
        return Shape.drawn(self.random)

    def new_member(self, spec: NodeSpec) -> Member:
        """One of the nodes."""
        return Member(self.network, spec, self.shape, Random(f"member {self.seed} {spec.id}"))

    def new_checks(self) -> Checks:
        """What the nodes are checked for."""
        return Checks(self)

    def new_faults(self, left_out: Collection[int]) -> Faults:
        """What goes wrong."""
        return Faults(self, left_out)

    async def prepare(self) -> None:
        """Create the topics."""
        await self.world.prepare(REPLICAS, self.shape.topic_configs)

    def writers(self, clients: Clients) -> list[Coroutine[Any, Any, None]]:
        """Clients that end by themselves."""
        return clients.writers()

    def consumers(self, clients: Clients) -> list[Coroutine[Any, Any, None]]:
        """Clients that go on until the world ends."""
        return clients.consumers()

    async def come_to_rest(self) -> None:
        """Wait for what goes on after all clients have ended, apart from the last reader."""

    def note(self, what: str) -> None:
        """Note an event."""
        self.trace.happens(self.loop.time(), what)

    def result(self) -> Result:
        found = [*self.checks.violations, *map(str, check(self.world.history))]
        return Result(
            seed=self.seed,
            violations=found + self.world.surprises,
            digest=self.trace.digest(),
            steps=self.world.history.count(),
            crashes=sum(each.crashes.total() for each in self.members.values()),
            virtual_s=self.loop.time(),
            trace=self.trace.lines,
        )

    def give_up(self) -> None:
        """End the simulation, since what follows from a violation is of no interest."""
        if self._running is not None:
            self._running.cancel()

    def run_to_end(self) -> None:
        """Run it until it has ended or come to a violation."""
        try:
            self.loop.run_until_complete(self._run())
        except asyncio.CancelledError:
            assert self.checks.violations
        except (Stuck, Unhealed) as error:
            self.world.surprises.append(str(error))
        except NeedsOperator as error:
            self.note(str(error))

    async def _run(self) -> None:
        self._running = asyncio.current_task()
        self.loop.on_turn = self.checks.turn
        self._supervisors = [
            self.loop.create_task(self._supervise(each)) for each in self.members.values()
        ]
        await self._until_whole("start")
        await self.prepare()
        clients = Clients(self)
        finite, endless = self.writers(clients), self.consumers(clients)
        self._choose_network_faults()
        writers = [self.loop.create_task(each) for each in finite]
        consumers = [self.loop.create_task(each) for each in endless]
        await self.faults.run()
        self.is_healing = True
        self.faults.heal()
        await self._until_whole("heal")
        await self._finish(writers, "writers")
        self.world.is_ending = True
        await self._finish(consumers, "consumers")
        if clients.has_transactions:
            await self._until_transactions_end()
        await self.come_to_rest()
        epochs, wire = None, self.world.wire("drain", may_linger=False)
        while epochs != self.health.leader_epochs():
            # A leader that was just elected learns the high watermark from its followers: it
            # would have the reader end too early.
            await self._until_whole("be ready for the last reader")
            epochs = self.health.leader_epochs()
            await self._finish([self.loop.create_task(self._drain(wire))], "last reader")
            await self._until_whole("come to rest")
        self.checks.at_end()

    async def _supervise(self, member: Member) -> None:
        try:
            await member.supervise()
        except Exception as error:
            self.checks.found(f"START {member.name}: {error!r}")

    def _failed(self, member: Member, failure: Exception | None) -> None:
        self.checks.found(f"FAILED {member.name}: {failure!r}")

    def _is_deposed(self, address: Address, group: str) -> bool:
        topic = self.health.newest_image().topics[OFFSETS_TOPIC]
        partition = topic.partitions[coordinator_partition(group, len(topic.partitions))]
        leader = self.members.get(partition.leader)
        return leader is None or leader.address != address

    async def _until_whole(self, what: str) -> None:
        """Wait until the cluster is whole: a cluster without faults is, after a limited time."""
        end_s = self.loop.time() + _HEALING_S
        while not self.health.is_whole():
            if self.loop.time() > end_s:
                if self.health.is_lost():
                    raise NeedsOperator("a partition has no replica that is an eligible leader")
                raise Unhealed(f"UNHEALED the cluster does not {what}: {self.health.missing()}")
            await asyncio.sleep(0.1)
        self.note(f"the cluster is whole: {what}")

    async def _until_transactions_end(self) -> None:
        """Wait until each transaction has ended, at the latest by its timeout."""
        end_s = self.loop.time() + 2 * TIMEOUT_MS / 1000
        while self.loop.time() < end_s and self.health.has_open_transaction():
            await asyncio.sleep(0.1)

    def _choose_network_faults(self) -> None:
        faults = self.network.faults
        faults.slow = self.random.choice([0, 0.005, 0.02])
        faults.torn = self.random.choice([0, 0.1])
        faults.copied = self.random.choice([0, 0.1])

    async def _finish(self, tasks: list[asyncio.Task[Any]], who: str) -> None:
        if not tasks:
            return
        done, pending = await asyncio.wait(tasks, timeout=_PATIENCE_S)
        for task in done:
            task.result()
        if pending:
            self.world.surprises.append(f"STUCK {len(pending)} {who} did not come through")
            for task in pending:
                task.cancel()

    async def _drain(self, wire: Wire) -> None:
        """Read all records."""
        await drain_all(self.world, wire)
        for member in self.members.values():
            for path, data in sorted(member.files().items()):
                self.trace.moved(self.loop.time(), f"{member.name} {path}", data)
