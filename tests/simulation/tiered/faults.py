"""The faults of a cluster with an object store: those of every cluster, and those of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.cluster.faults import KINDS, Faults
from tests.simulation.tiered.store import StoreFaults

if TYPE_CHECKING:
    from tests.simulation.tiered.simulation import TieredSimulation


class TieredFaults(Faults):
    """Causes the planned faults, and ends them all in the end."""

    kinds = {kind: weight for kind, weight in KINDS.items() if kind != "change_voters"}
    always = {"fail_store": 4, "crash_at_store": 4}

    def __init__(self, simulation: TieredSimulation, left_out: Collection[int] = ()):
        super().__init__(simulation, left_out)
        self._store = simulation.store
        self._crash_at = 0
        """At which step of requests to the store the node that makes it crashes; 0 for none."""
        self._crash_random = Random(0)
        self._store.on_step = self._stepped

    def heal(self) -> None:
        self._crash_at = 0
        self._store.heal()
        super().heal()

    async def _fail_store(self, random: Random) -> None:
        """Let requests to the store fail, get lost or take long for a while."""
        some = (0.0, 0.0, 0.02, 0.1, 0.5)
        self._store.faults = StoreFaults(
            refused=random.choice((*some, 1.0)),
            lost=random.choice(some),
            hanging=random.choice(some),
            hanging_s=random.choice((0.5, 4.0, 15.0)),
            lag_s=random.choice((0.0, 3.0)),
        )
        await asyncio.sleep(random.uniform(0.5, 6))
        self._store.heal()

    async def _crash_at_store(self, random: Random) -> None:
        """Crash the node that makes one of the next requests, before or after it takes effect."""
        self._crash_random = random
        self._crash_at = random.randint(1, 40)
        await asyncio.sleep(4)
        self._crash_at = 0

    def _stepped(self, node: str, what: str) -> None:
        if not self._crash_at:
            return
        self._crash_at -= 1
        if self._crash_at:
            return
        [member] = [each for each in self._members if each.name == node]
        if self._is_needed(member):
            return
        random = self._crash_random
        self._simulation.note(f"{node} crashes {what}")
        member.down_s = random.choice((0.01, 0.5, 4))
        outcome = self._outcome(random)
        # Not in the job that makes the request, which ends with the process.
        self._simulation.loop.call_soon(member.end, outcome, context=self._simulation.context)
