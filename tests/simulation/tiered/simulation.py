"""One seed of a cluster with tiered topics and an object store that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextvars import copy_context
from random import Random
from typing import Any

from tests.simulation.cluster.checks import Checks
from tests.simulation.cluster.clients import Clients
from tests.simulation.cluster.member import Member
from tests.simulation.cluster.shape import NodeSpec, Shape
from tests.simulation.cluster.simulation import Simulation, simulated
from tests.simulation.disk import Crash
from tests.simulation.loop import VirtualLoop
from tests.simulation.simulation import Result, follow
from tests.simulation.tiered.checks import TieredChecks
from tests.simulation.tiered.faults import TieredFaults
from tests.simulation.tiered.keeper import Keeper
from tests.simulation.tiered.member import TieredMember
from tests.simulation.tiered.passing_topics import PassingTopics
from tests.simulation.tiered.shape import TieredShape, short_limits
from tests.simulation.tiered.store import SimulatedStore
from tests.simulation.trace import Trace
from tests.simulation.wire import BUSY, Refused, Wire
from wirekafka.errors import Error

_REST_S = 150
"""The virtual time within which the store must agree with its metadata after all faults."""


def simulate(seed: int, *, keeps_trace: bool = False, left_out: Collection[int] = ()) -> Result:
    """Run one seed from the beginning to the end, without the faults of these numbers."""
    with short_limits():
        return simulated(TieredSimulation, seed, keeps_trace=keeps_trace, left_out=left_out)


class TieredSimulation(Simulation):
    """The course of one seed."""

    def __init__(self, seed: int, loop: VirtualLoop, trace: Trace, left_out: Collection[int] = ()):
        self.context = copy_context()
        self.store = SimulatedStore(loop, Random(f"store {seed}"))
        self.tiered_members: dict[int, TieredMember] = {}
        super().__init__(seed, loop, trace, left_out)
        # As a client does: the store or the metadata cannot be read for now.
        self.world.retried = BUSY | {Error.UNKNOWN_SERVER_ERROR, Error.REPLICA_NOT_AVAILABLE}
        self.tier_checks = TieredChecks(self)
        self.keeper = Keeper(self)
        self.passing = PassingTopics(self)
        loop.set_exception_handler(self._unexpected)

    def drawn_shape(self) -> Shape:
        return TieredShape.drawn(self.random)

    def new_member(self, spec: NodeSpec) -> Member:
        random = Random(f"member {self.seed} {spec.id}")
        member = TieredMember(self.network, spec, self.shape, random, self.store)
        self.tiered_members[spec.id] = member
        return member

    def new_checks(self) -> Checks:
        return _Checks(self)

    def new_faults(self, left_out: Collection[int]) -> TieredFaults:
        return TieredFaults(self, left_out)

    async def prepare(self) -> None:
        await super().prepare()
        await self.keeper.prepare()

    def writers(self, clients: Clients) -> list[Coroutine[Any, Any, None]]:
        return [*super().writers(clients), self.keeper.write(), self.passing.run()]

    def consumers(self, clients: Clients) -> list[Coroutine[Any, Any, None]]:
        # Groups have nothing to do with remote storage, and take as long as all others together.
        return [
            follow(self.world, "committed", committed=True),
            follow(self.world, "uncommitted", committed=False),
            self.keeper.trim(),
            self.keeper.follow(),
        ]

    async def come_to_rest(self) -> None:
        """Wait until the objects are those of the metadata, and check what is left."""
        end_s = self.loop.time() + _REST_S
        while (wrong := self.tier_checks.wrong()) is not None:
            if self.loop.time() > end_s:
                self.checks.found(wrong)
                return
            await asyncio.sleep(0.5)
        self.note("the store is at rest")
        try:
            await self._finish([self.loop.create_task(self.keeper.check())], "keeper")
        except Refused as refused:
            self.checks.found(f"LOST {refused}")
        for violation in [*self.tier_checks.offsets(), *self.store.violations]:
            self.checks.found(violation)

    async def _drain(self, wire: Wire) -> None:
        try:
            await super()._drain(wire)
        except Refused as refused:
            self.checks.found(f"LOST {refused}")

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Crash):
            self.checks.found(f"BROKEN {context['message']}: {error!r}")

    def result(self) -> Result:
        result = super().result()
        result.steps += self.store.requests
        return result


class _Checks(Checks):
    """As for every cluster, except that topics may be created again with the same name."""

    def appended(self, member: Member, path: str, data: bytes) -> None:
        if "/passing-" not in path:
            super().appended(member, path, data)
