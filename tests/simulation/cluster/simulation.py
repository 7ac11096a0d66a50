"""One seed of a cluster: nodes, clients and faults, then healing, and the checks."""

from __future__ import annotations

import asyncio
import logging
import random as global_random
from collections.abc import Coroutine
from random import Random
from typing import Any

from tests.histories.checker import check
from tests.simulation.cluster.member import Member
from tests.simulation.cluster.shape import MIN_ISR, REPLICAS, Shape
from tests.simulation.loop import Stuck, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.node import new_loop
from tests.simulation.producer import IdempotentProducer
from tests.simulation.simulation import LoggedErrors, Result, drained
from tests.simulation.trace import Trace
from tests.simulation.world import PLACES, World

_PATIENCE_S = 300
"""The virtual time within which every client must finish once all faults have ended."""


def simulate(seed: int, *, keeps_trace: bool = False) -> Result:
    """Run one seed from the beginning to the end."""
    # Nodes draw the jitter of their retries from the process's generator.
    state = global_random.getstate()
    global_random.seed(seed)
    loop = new_loop()
    simulation = Simulation(seed, loop, Trace(keeps=keeps_trace))
    errors = LoggedErrors()
    logger = logging.getLogger("wirekafka")
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(errors)
    try:
        loop.run_until_complete(simulation.run())
    except Stuck as stuck:
        simulation.world.surprises.append(f"STUCK {stuck}")
    finally:
        loop.on_turn = None
        logger.removeHandler(errors)
        logger.propagate = was_propagating
        _close(loop)
        global_random.setstate(state)
    simulation.world.surprises += errors.messages
    return simulation.result()


def _close(loop: VirtualLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


class Simulation:
    """The course of one seed."""

    def __init__(self, seed: int, loop: VirtualLoop, trace: Trace):
        self.seed = seed
        self.loop = loop
        self.trace = trace
        # One random generator each, so that a further client does not change all the others.
        self.random = Random(f"cluster {seed}")
        self.network = Network(loop, Random(f"cluster network {seed}"), trace)
        self.shape = Shape.drawn(self.random)
        self.members = {
            spec.id: Member(self.network, spec, self.shape, Random(f"member {seed} {spec.id}"))
            for spec in self.shape.specs
        }
        brokers = [each.address for each in self.members.values() if each.spec.is_broker]
        self.world = World(self.network, Random(f"clients {seed}"), brokers)

    def result(self) -> Result:
        violations = [str(each) for each in check(self.world.history)] + self.world.surprises
        return Result(
            seed=self.seed,
            violations=violations,
            digest=self.trace.digest(),
            steps=self.world.history.count(),
            crashes=sum(each.crashes.total() for each in self.members.values()),
            virtual_s=self.loop.time(),
            trace=self.trace.lines,
        )

    async def run(self) -> None:
        for member in self.members.values():
            self.loop.create_task(member.supervise())
        while not all(member.is_up for member in self.members.values()):
            await asyncio.sleep(0.1)
        await self.world.prepare(REPLICAS, {"min.insync.replicas": str(MIN_ISR)})
        await self._finish(self._writers(), "writers")
        await self._finish([self._drain()], "last reader")

    def _writers(self) -> list[Coroutine[Any, Any, None]]:
        return [IdempotentProducer(self.world, "plain-0", 25).run()]

    async def _finish(self, coroutines: list[Coroutine[Any, Any, None]], who: str) -> None:
        tasks = [self.loop.create_task(each) for each in coroutines]
        done, pending = await asyncio.wait(tasks, timeout=_PATIENCE_S)
        for task in done:
            task.result()
        if pending:
            self.world.surprises.append(f"STUCK {len(pending)} {who} did not come through")
            for task in pending:
                task.cancel()

    async def _drain(self) -> None:
        """Read all records."""
        wire = self.world.wire("drain", may_linger=False)
        for place in PLACES:
            self.world.history.drained[place] = await drained(self.world, wire, place)
        for member in self.members.values():
            for path, data in sorted(member.files().items()):
                self.trace.moved(self.loop.time(), f"{member.name} {path}", data)
