"""One seed of a quorum: controllers, a writer and faults, then healing, and the checks."""

from __future__ import annotations

from random import Random

from tests.simulation.disk import Outcome
from tests.simulation.quorum.controller import SimulatedController
from tests.simulation.quorum.world import World
from tests.simulation.simulation import Result
from wirekafka.replication.raft.messages import AddVoter, RemoveVoter

_PATIENCE_MS = 60_000
"""The virtual time within which the quorum must be whole again after the last fault."""

_OUTCOMES = (
    Outcome.ALL_KEPT,
    Outcome.UNSYNCED_LOST,
    Outcome.UNSYNCED_LOST,
    Outcome.PREFIX,
    Outcome.ZERO_TAIL,
    Outcome.GARBAGE_TAIL,
)


def simulate(seed: int, *, keeps_trace: bool = False) -> Result:
    """Run the history of a seed."""
    simulation = Simulation(seed, keeps_trace=keeps_trace)
    simulation.run()
    world = simulation.world
    return Result(
        seed=seed,
        violations=world.violations,
        digest=world.digest(),
        steps=world.schedule.steps,
        crashes=world.crashes,
        virtual_s=world.schedule.time_ms / 1_000,
        trace=world.lines,
    )


class Simulation:
    """The course of one seed."""

    def __init__(self, seed: int, *, keeps_trace: bool):
        self.world = world = World(seed, keeps_trace=keeps_trace)
        self.random: Random = world.random
        self._is_over = False
        self._serial = 0
        self._fault_ms = self.random.choice((300, 1_000, 3_000))
        self._write_ms = self.random.choice((50, 200, 600))
        self._crashes_voters = self.random.random() < 0.5
        world.has_voted = self._voted
        self._controllers = [each for each in world.controllers.values() if each.can_vote]

    def run(self) -> None:
        world = self.world
        for node in world.controllers.values():
            if world.is_dynamic:
                node.format(world.first_voters)
            node.start()
        world.network.loss = self.random.choice((0, 0.01, 0.1))
        world.network.slowness = self.random.choice((0, 0.01, 0.1))
        world.network.repetition = self.random.choice((0, 0.01, 0.1))
        self._plan_write()
        self._plan_fault()
        limit_ms = self.random.choice((8_000, 15_000, 30_000))
        world.schedule.run_until(lambda: bool(world.violations), limit_ms)
        if not world.violations:
            self._heal()

    def _heal(self) -> None:
        """End all faults, and wait until everything is committed everywhere."""
        world = self.world
        self._is_over = True
        world.trace("all faults end")
        world.network.heal()
        world.slow_sync = 0.0
        for node in world.controllers.values():
            node.disk.crash_at = -1
            if node.process.is_paused:
                node.process.resume()
        self._leave_out_the_leader()
        self._revive()
        target = self._serial + 5
        done = world.schedule.run_until(
            lambda: bool(world.violations) or (self._serial >= target and self._is_whole()),
            _PATIENCE_MS,
        )
        if not done and not world.violations:
            shown = [
                f"{node.name}: {node.raft.role} of {node.log.epoch} at {node.log.committed_offset}"
                f" of {node.log.end_offset}"
                for node in world.controllers.values()
                if node.is_up
            ]
            world.found(f"STUCK {'; '.join(shown)}")

    def _leave_out_the_leader(self) -> None:
        """In some seeds the leader stays away: the others must elect another one without it."""
        leader = next(
            (each for each in self._controllers if each.is_up and each.raft.is_leader), None
        )
        if leader is None or len(leader.raft.voters) < 3 or self.random.random() < 0.5:
            return
        if any(each.log.voters != leader.log.voters for each in self._controllers):
            # As in Kafka, a voter whose removal is in its log asks for no votes, although others
            # may not win without it before the removal is committed.
            return
        leader.kill(Outcome.ALL_KEPT)
        others = [each for each in self._controllers if each is not leader]

        def is_replaced() -> bool:
            leads = any(each.is_up and each.raft.is_leader for each in others)
            return leads or bool(self.world.violations)

        for _ in range(_PATIENCE_MS // 1_000):
            self._revive(leader)
            if self.world.schedule.run_until(is_replaced, 1_000):
                return
        self.world.found(f"STUCK without {leader.name}")

    def _revive(self, left_out: SimulatedController | None = None) -> None:
        for node in self.world.controllers.values():
            if not node.is_up and node is not left_out:
                node.start()
        if left_out is not None:
            return
        if self._is_over:
            self.world.schedule.after(1_000, self._revive)

    def _is_whole(self) -> bool:
        """One leader, and nobody behind it."""
        nodes = list(self.world.controllers.values())
        if not all(node.is_up for node in nodes):
            return False
        leaders = [node for node in nodes if node.raft.is_leader]
        if len(leaders) != 1:
            return False
        end_offset = leaders[0].log.end_offset
        return all(
            (node.log.epoch, node.log.end_offset, node.log.committed_offset)
            == (leaders[0].log.epoch, end_offset, end_offset)
            for node in nodes
        )

    def _plan_write(self) -> None:
        self.world.schedule.after(self.random.expovariate(1 / self._write_ms), self._write)

    def _write(self) -> None:
        """Append to each node that takes itself for the leader."""
        for node in self._controllers:
            if node.is_up and node.raft.is_leader:
                self._serial += 1
                node.append(self.random.randrange(5), self._serial)
        if self._is_over:
            self.world.schedule.after(3_000, self._write)
        else:
            self._plan_write()

    def _plan_fault(self) -> None:
        self.world.schedule.after(self.random.expovariate(1 / self._fault_ms), self._fault)

    def _fault(self) -> None:
        if self._is_over:
            return
        random = self.random
        node = random.choice(list(self.world.controllers.values()))
        choice = random.random()
        if choice < 0.25:
            self._end(node)
        elif choice < 0.3:
            self._cut_power()
        elif choice < 0.4:
            self._pause(node)
        elif choice < 0.6:
            self._cut_off(node)
        elif choice < 0.65:
            node.stop()
        elif choice < 0.8:
            node.write_snapshot()
        else:
            self._change_voters()
        if random.random() < 0.5:
            for each in self.world.controllers.values():
                if not each.is_up and random.random() < 0.5:
                    each.start()
        self._plan_fault()

    def _end(self, node: SimulatedController) -> None:
        if not node.is_up:
            return
        outcome = self._outcome()
        if self.random.random() < 0.5:
            node.crash_soon(self.random.randint(1, 20), outcome)
        else:
            node.kill(outcome)

    def _outcome(self) -> Outcome:
        """What a crash leaves of unsynced writes."""
        return self.random.choice(_OUTCOMES)

    def _voted(self, node: SimulatedController) -> None:
        """Sometimes end a node that has just voted, and have another candidate ask it again."""
        world, process, random = self.world, node.process, self.random
        if self._is_over or not self._crashes_voters or random.random() < 0.7:
            return

        def end() -> None:
            if not process.is_dead:
                node.kill(self._outcome())
                node.start()
                world.schedule.after(random.random() * 5, ask)

        def ask() -> None:
            request = world.another_candidate(node)
            if request is not None:
                node.process.run(lambda: node.serve(request, lambda response: None))

        world.schedule.after(random.random() * 2, end)

    def _cut_power(self) -> None:
        """End all nodes at once, and start them again."""
        self.world.trace("the power fails")
        for node in self.world.controllers.values():
            if node.is_up:
                node.kill(self._outcome())
        for node in self.world.controllers.values():
            node.start()

    def _pause(self, node: SimulatedController) -> None:
        process = node.process
        if not node.is_up or process.is_paused:
            return
        node.note("is paused")
        process.pause()

        def resume() -> None:
            if process.is_paused:
                node.note("continues")
                process.resume()

        self.world.schedule.after(self.random.choice((500, 2_500, 8_000)), resume)

    def _cut_off(self, node: SimulatedController) -> None:
        """Lose messages between a node and some others, in one or both directions."""
        random, world = self.random, self.world
        others = [each.name for each in world.controllers.values() if each is not node]
        others = random.sample(others, random.randint(1, len(others)))
        there = [(node.name, other) for other in others]
        back = [(other, node.name) for other in others]
        routes = random.choice((there, back, there + back))
        node.note(f"is cut off: {routes}")
        for route in routes:
            world.network.cut(*route)

        def mend() -> None:
            if not self._is_over:
                for route in routes:
                    world.network.mend(*route)

        world.schedule.after(random.choice((300, 3_000, 8_000)), mend)

    def _change_voters(self) -> None:
        world, random = self.world, self.random
        for leader in self._controllers:
            if not world.is_dynamic or not leader.is_up or not leader.raft.is_leader:
                continue
            voters = leader.raft.voters
            node = random.choice(self._controllers)
            key = node.voter.key
            if node.id in voters.ids:
                if len(voters) > 2:
                    leader.change_voters(
                        lambda raft, now_ms, key=key: raft.remove_voter(
                            RemoveVoter(voter=key), now_ms
                        ),
                        f"removes voter {key.id}",
                    )
                return
            leader.change_voters(
                lambda raft, now_ms, key=key, node=node: raft.add_voter(
                    AddVoter(voter=key, endpoints=node.voter.endpoints), now_ms
                ),
                f"adds voter {key.id}",
            )
