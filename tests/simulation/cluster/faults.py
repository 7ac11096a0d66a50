"""The faults of a simulated cluster, planned from its seed: each can be left out without the others
changing, so that a failing seed can be shrunk."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.cluster.administration import Administration
from tests.simulation.cluster.member import Member
from tests.simulation.disk import Outcome

if TYPE_CHECKING:
    from tests.simulation.cluster.simulation import Simulation

_POWER_CUTS = (
    Outcome.UNSYNCED_LOST,
    Outcome.ZERO_TAIL,
    Outcome.GARBAGE_TAIL,
    Outcome.RENAMED_EMPTY,
    Outcome.PREFIX,
    Outcome.PREFIX,
)
"""What a power cut leaves. Not sectors out of order: a log in which a valid batch follows an
invalid one is not opened without a repair, and several batches may not be synced yet."""
KINDS = {
    "break_connections": 3,
    "cut_off": 4,
    "kill": 3,
    "crash_in_operation": 5,
    "cut_power_of_one": 2,
    "cut_power_of_all": 1,
    "stop": 2,
    "pause": 3,
    "jump": 2,
    "slow_disk": 2,
    "change_voters": 2,
    "administer": 4,
}
"""The kinds of faults and changes, with their weights; each is a method of `Faults`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what happens when, and the seed of all details."""

    number: int
    at_s: float
    kind: str
    seed: str

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} at {self.at_s:.3f} s"


def planned(
    seed: int, weighted: Mapping[str, int] = KINDS, always: Mapping[str, int] | None = None
) -> list[Fault]:
    """The faults of a seed, by time: of some of the `weighted` kinds, and of those `always`."""
    random = Random(f"plan {seed}")
    length_s = random.choice((10.0, 15.0, 25.0))
    interval_s = random.choice((0.5, 1.0, 3.0))
    # Few kinds at once find what a mixture of all hides.
    kinds = random.sample(list(weighted), random.choice((2, 4, len(weighted))))
    weights = [weighted[kind] for kind in kinds]
    if always is not None:
        kinds += always
        weights += always.values()
    faults: list[Fault] = []
    at_s = random.expovariate(1 / interval_s)
    while at_s < length_s:
        number = len(faults)
        [kind] = random.choices(kinds, weights)
        faults.append(Fault(number, at_s, kind, f"fault {seed} {number}"))
        at_s += random.expovariate(1 / interval_s)
    return faults


class Faults:
    """Causes the planned faults, and ends them all in the end."""

    kinds: Mapping[str, int] = KINDS
    always: Mapping[str, int] | None = None
    """Kinds that are in the plan of every seed."""

    def __init__(self, simulation: Simulation, left_out: Collection[int] = ()):
        self._simulation = simulation
        self._network = simulation.network
        self._members = list(simulation.members.values())
        self._administration = Administration(simulation)
        self._left_out = left_out
        self._lost_by: Member | None = None
        """The node that a power cut may have cost what it had not synced, until it is in sync."""
        self.plan = planned(simulation.seed, self.kinds, self.always)

    async def run(self) -> None:
        """Cause each fault at its time, and return when all are over."""
        loop, begin_s = self._simulation.loop, self._simulation.loop.time()
        under_way: list[asyncio.Task[None]] = []
        for fault in self.plan:
            await asyncio.sleep(begin_s + fault.at_s - loop.time())
            if fault.number in self._left_out:
                continue
            self._simulation.trace.happens(loop.time(), f"fault {fault}")
            under_way.append(loop.create_task(self._cause(fault)))
        for task in under_way:
            await task

    def heal(self) -> None:
        """End all faults: every node runs, and everything can be sent."""
        self._simulation.trace.happens(self._simulation.loop.time(), "all faults end")
        self._network.heal()
        for member in self._members:
            member.crash_soon(-1)
            member.slow_io = 0.0
            member.resume()
            member.down_s = 0.0
            member.start_now()

    async def _cause(self, fault: Fault) -> None:
        await getattr(self, f"_{fault.kind}")(Random(fault.seed))

    async def _break_connections(self, random: Random) -> None:
        for _ in range(random.randint(1, 5)):
            self._network.break_one()
            await asyncio.sleep(random.uniform(0, 0.2))

    async def _cut_off(self, random: Random) -> None:
        """Cut one or both directions between one node and some others, or some clients."""
        names = [each.name for each in self._members]
        name = random.choice(names)
        others = [each for each in names if each != name]
        if random.random() < 0.3:
            others = [each for each in self._network.names if each != name]
        elif random.random() < 0.5:
            others = random.sample(others, random.randint(1, len(others)))
        there = [(name, other) for other in others]
        back = [(other, name) for other in others]
        ways = random.choice((there, back, there + back))
        for way in ways:
            self._network.cut(*way)
        await asyncio.sleep(random.choice((0.3, 2, 7)))
        for way in ways:
            self._network.mend(*way)

    async def _kill(self, random: Random) -> None:
        member = self._a_member(random)
        member.down_s = random.choice((0.01, 0.5, 4))
        if not self._is_needed(member):
            member.end(Outcome.ALL_KEPT)

    async def _crash_in_operation(self, random: Random) -> None:
        """Crash within an operation of the disk, and perhaps again while it starts."""
        member = self._a_member(random)
        member.outcome = self._outcome(random)
        member.down_s = random.choice((0.01, 0.5, 4))
        life = member.life
        if self._is_needed(member):
            return
        member.crash_soon(random.randint(0, 60))
        again = random.randint(0, 60) if random.random() < 0.3 else -1
        for _ in range(100):
            if member.life != life:
                break
            await asyncio.sleep(0.05)
        is_over = self._simulation.is_healing or self._is_needed(member)
        member.crash_soon(again if member.life != life and not is_over else -1)

    async def _cut_power_of_one(self, random: Random) -> None:
        """Unless all logs are synced, only of a cluster whose other replicas have everything."""
        member = self._a_member(random)
        if not self._simulation.shape.is_synced:
            if not self._simulation.health.is_whole():
                return
            self._simulation.trace.happens(self._simulation.loop.time(), "all replicas are in sync")
            self._lost_by = member
            for other in self._members:
                other.crash_soon(-1)  # What was planned before: each other node is needed now.
        member.down_s = random.choice((0.01, 0.5, 4))
        member.end(self._power_cut(random))

    async def _cut_power_of_all(self, random: Random) -> None:
        down_s = random.choice((0.01, 0.5, 4))
        if any(map(self._is_needed, self._members)):
            return
        for member in self._members:
            member.down_s = down_s + random.random()
            member.end(self._outcome(random))

    async def _stop(self, random: Random) -> None:
        member = self._a_member(random)
        member.down_s = random.choice((0.01, 0.5, 4))
        if member.is_up:
            await member.stop_once()

    async def _pause(self, random: Random) -> None:
        member = self._a_member(random)
        member.pause()
        await asyncio.sleep(random.choice((0.2, 1.5, 5)))
        member.resume()

    async def _jump(self, random: Random) -> None:
        member = self._a_member(random)
        member.jump(random.choice((-2_000, -100, 50, 3_000)))
        if random.random() < 0.5:
            member.drift(random.choice((0.97, 1.0, 1.02)))

    async def _slow_disk(self, random: Random) -> None:
        member = self._a_member(random)
        member.slow_io = random.choice((0.1, 0.5))
        await asyncio.sleep(random.uniform(0.5, 6))
        member.slow_io = 0.0

    async def _change_voters(self, random: Random) -> None:
        await self._administration.change_voters(random)

    async def _administer(self, random: Random) -> None:
        await self._administration.change(random)

    def _a_member(self, random: Random) -> Member:
        """Any node; in half of the cases the active controller, if there is one."""
        if random.random() < 0.4:
            for member in self._members:
                if member.is_active:
                    return member
        return random.choice(self._members)

    def _is_needed(self, member: Member) -> bool:
        """Whether another node has lost data that this one has.

        Once none of the replicas has been shut down cleanly, the one that led last leads again, as
        in Kafka, whatever it has lost.
        """
        if self._lost_by is not None and self._simulation.health.is_whole():
            self._lost_by = None
        return self._lost_by not in (None, member)

    def _outcome(self, random: Random) -> Outcome:
        """What a crash leaves: everything, unless the seed's logs are synced."""
        if not self._simulation.shape.is_synced or random.random() < 0.3:
            return Outcome.ALL_KEPT
        return self._power_cut(random)

    def _power_cut(self, random: Random) -> Outcome:
        return random.choice(_POWER_CUTS[: -2 if self._simulation.shape.rolls else None])
