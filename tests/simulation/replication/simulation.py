"""One seed: brokers, producers and faults, and the checks at the end."""

from __future__ import annotations

from random import Random

from tests.simulation.disk import Outcome
from tests.simulation.replication import checks
from tests.simulation.replication.broker import SimulatedBroker, lossy
from tests.simulation.replication.producer import Producer, TransactionalProducer
from tests.simulation.replication.world import BROKERS, REPLICAS, World
from tests.simulation.simulation import Result

_PATIENCE_MS = 300_000
"""The virtual time within which all batches must be acknowledged after the faults."""


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
        crashes=simulation.crashes,
        virtual_s=world.schedule.time_ms / 1_000,
        trace=world.lines,
    )


class Simulation:
    """The course of one seed: faults while producers send, then healing, then the checks."""

    def __init__(self, seed: int, *, keeps_trace: bool):
        self.world = world = World(seed, keeps_trace=keeps_trace)
        self.random: Random = world.random
        self.crashes = 0
        # In a compacted log Kafka cannot distinguish a hole of a power cut from one of compaction.
        self._loses_power = self.random.random() < 0.5 and not world.is_compacted
        self._is_over = False
        self._unhealed: set[int] = set()
        """Brokers that stopped uncleanly, until they are in sync again."""
        self._broken: set[int] = set()
        """Brokers whose disk is replaced when they have ended."""
        world.crashed = self._crashed
        world.log_lost = self._log_lost
        batches = self.random.randint(15, 60)
        self.producers: list[Producer] = [
            Producer(world, number, batches) for number in range(self.random.randint(1, 2))
        ]
        self.producers += [
            TransactionalProducer(world, 10 + number, batches)
            for number in range(self.random.randint(0, 2))
        ]

    def run(self) -> None:
        """Run the complete history; stops at the first violation."""
        world = self.world
        for broker in world.brokers.values():
            broker.start()
        self._wait(lambda: all(world.controller.image.may_join(each) for each in BROKERS), "start")
        world.create_topic()
        for producer in self.producers:
            producer.start()
        world.network.loss = self.random.choice((0, 0.01, 0.05))
        world.network.slowness = self.random.choice((0, 0.01, 0.05))
        self._plan_fault()
        limit_ms = self.random.choice((30_000, 60_000, 120_000))
        world.schedule.run_until(lambda: bool(world.violations), limit_ms)
        if not world.violations:
            self._heal()
        if not world.violations:
            for violation in checks.violations(world, self.producers):
                world.found(violation)

    def _heal(self) -> None:
        world = self.world
        world.trace("all is healed")
        self._is_over = True
        world.network.heal()
        if world.topic_id is None:
            self._recreate()
        self._wait(self._revive, "brokers")
        self._wait(lambda: all(each.is_done for each in self.producers), "producers")
        self._wait(self._is_in_sync, "replicas")
        # Wait until deleted files are removed.
        delay_ms = world.config.file_delete_delay_ms + 25_000
        world.schedule.run_until(lambda: bool(world.violations), delay_ms)
        self._wait(self._is_in_sync, "replicas")

    def _wait(self, done: object, what: str) -> None:
        world = self.world
        assert callable(done)
        world.schedule.run_until(lambda: bool(world.violations) or done(), _PATIENCE_MS)
        if not world.violations and not done():
            world.found(f"STUCK {what}: {world.controller.partition}")

    def _revive(self) -> bool:
        for broker in self.world.brokers.values():
            broker.disk.crash_at = -1
            if broker.process.is_paused:
                broker.process.resume()
            if not broker.is_up:
                broker.start()
        return all(
            broker.is_up and not broker.is_stopping for broker in self.world.brokers.values()
        )

    def _is_in_sync(self) -> bool:
        world = self.world
        state = world.controller.partition
        if state is None or set(state.isr) != set(state.replicas) or state.adding or state.removing:
            return False
        ends = set()
        for broker in world.brokers.values():
            partition = broker.partition
            if (partition is not None) is not (broker.id in state.replicas):
                return False
            if partition is not None:
                ends |= {partition.high_watermark, partition.log.end_offset}
        return len(ends) == 1

    # Faults.

    def _plan_fault(self) -> None:
        self.world.schedule.after(self.random.expovariate(1 / 4_000), self._fault)

    def _fault(self) -> None:
        if self._is_over:
            return
        random, world = self.random, self.world
        broker = world.brokers[random.choice((*REPLICAS, *REPLICAS, 4))]
        state = world.controller.partition
        kind = random.random()
        if kind < 0.2:
            self._end_uncleanly(broker)
        elif kind < 0.3:
            if broker.is_up and not broker.is_stopping and not broker.process.is_paused:
                broker.stop()
        elif kind < 0.4:
            self._pause(broker)
        elif kind < 0.6:
            self._cut_off(broker)
        elif kind < 0.75:
            world.controller.elect(random.choice(REPLICAS if state is None else state.replicas))
        elif kind < 0.85:
            self._reassign()
        elif kind < 0.9:
            self._delete_records()
        elif kind < 0.91:
            self._recreate()
        else:
            world.network.loss = random.choice((0, 0.01, 0.1))
            world.network.slowness = random.choice((0, 0.02, 0.1))
        self._restart_some()
        self._plan_fault()

    def _end_uncleanly(self, broker: SimulatedBroker) -> None:
        random = self.random
        if not broker.is_up or not self._may_end_uncleanly(broker):
            return
        self._unhealed.add(broker.id)
        outcome = lossy(random) if self._loses_power else Outcome.ALL_KEPT
        if random.random() < 0.5:
            broker.crash_soon(random.randint(1, 30), outcome)
            return
        broker.kill(outcome)
        self._crashed(broker)

    def _may_end_uncleanly(self, broker: SimulatedBroker) -> bool:
        """Whether committed records survive it, as Kafka guarantees for one failure at a time."""
        if not self._loses_power:
            return True  # No disk has lost data.
        state = self.world.controller.partition
        if state is None or state.adding or state.removing:
            return False
        in_sync = {*state.isr, *state.elr}
        self._unhealed = {each for each in self._unhealed if not self._is_healed(each)}
        return not self._unhealed and bool(in_sync - {broker.id})

    def _is_healed(self, broker_id: int) -> bool:
        broker, state = self.world.brokers[broker_id], self.world.controller.partition
        if not broker.is_up or broker.disk.crash_at >= 0 or state is None:
            return False
        registered = self.world.controller.image.brokers[broker_id]
        if registered.epoch != broker.epoch:
            return False
        return broker_id in state.isr or broker_id not in state.replicas

    def _crashed(self, broker: SimulatedBroker) -> None:
        self.crashes += 1
        has_new_disk = self._loses_power and self.random.random() < 0.1
        if has_new_disk or broker.id in self._broken:
            self._broken.discard(broker.id)
            broker.replace_disk()

    def _log_lost(self, broker: SimulatedBroker, reason: str) -> None:
        if not self._loses_power:
            self.world.found(f"BROKEN_LOG {broker.name}: {reason}")
        broker.outcome = Outcome.ALL_KEPT
        # It crashes next.
        self._broken.add(broker.id)

    def _pause(self, broker: SimulatedBroker) -> None:
        process = broker.process
        if not broker.is_up or process.is_paused:
            return
        broker.note("is paused")
        process.pause()

        def resume() -> None:
            if process.is_paused:
                broker.note("continues")
                process.resume()

        self.world.schedule.after(self.random.choice((500, 5_000, 15_000)), resume)

    def _cut_off(self, broker: SimulatedBroker) -> None:
        """Lose messages between a broker and some others, in one or both directions."""
        random, world = self.random, self.world
        others = [each.name for each in world.brokers.values() if each is not broker]
        others += [world.controller.process.name, *(each.name for each in self.producers)]
        others = random.sample(others, random.randint(1, len(others)))
        routes = [(broker.name, other) for other in others]
        back = [(other, broker.name) for other in others]
        routes = random.choice((routes, back, routes + back))
        broker.note(f"is cut off: {routes}")
        for route in routes:
            world.network.cut(*route)

        def mend() -> None:
            if not self._is_over:
                for route in routes:
                    world.network.mend(*route)

        world.schedule.after(random.choice((300, 3_000, 12_000)), mend)

    def _reassign(self) -> None:
        if self._loses_power and self._unhealed:
            return
        if self.random.random() < 0.3:
            self.world.controller.call_off()
            return
        target = self.random.sample(BROKERS, self.random.choice((3, 3, 2)))
        if self._is_over or len(target) < 2:
            return
        self.world.controller.reassign(tuple(target))

    def _delete_records(self) -> None:
        state = self.world.controller.partition
        if not self.world.deletes or state is None or state.leader < 0:
            return
        leader = self.world.brokers[state.leader]
        partition = leader.partition
        if leader.is_up and partition is not None and partition.leader is not None:
            offset = self.random.randint(0, partition.high_watermark)
            leader.note(f"deletes records below {offset}")
            leader.process.run(lambda: partition.delete_records(offset) and None)

    def _recreate(self) -> None:
        world = self.world
        if world.topic_id is not None:
            if self._loses_power and self._unhealed:
                return
            world.delete_topic()
        if self._is_over or self.random.random() < 0.5:
            self._create()
        else:
            world.schedule.after(3_000, self._create)

    def _create(self) -> None:
        world = self.world
        if world.topic_id is not None:
            return
        if not any(world.controller.image.may_join(each) for each in REPLICAS):
            world.schedule.after(1_000, self._create)
            return
        world.create_topic()
        for producer in self.producers:
            producer.restart()

    def _restart_some(self) -> None:
        for broker in self.world.brokers.values():
            if not broker.is_up and self.random.random() < 0.5:
                broker.start()
