"""One seed: a broker, its clients, and the faults between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.histories.checker import Author, Violation, check, check_power_cut
from tests.histories.history import Drained, Place
from tests.simulation import consumer_group, share_group, streams_group
from tests.simulation.consumer_group import BrokerAssignedMember
from tests.simulation.disk import Outcome
from tests.simulation.group import Member
from tests.simulation.loop import Stuck, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.node import SimulatedNode, new_loop
from tests.simulation.producer import IdempotentProducer
from tests.simulation.reader import Reader, read_to_end
from tests.simulation.share_group import Shared, ShareMember
from tests.simulation.streams_group import StreamsProcess
from tests.simulation.trace import Trace
from tests.simulation.transactions import TIMEOUT_MS, TransactionalProducer
from tests.simulation.wire import GROUP, Coordinator, Lost, Refused, Wire
from tests.simulation.world import PLACES, World, ask_until, sleep
from wirekafka.protocol.offset_fetch import OffsetFetchRequest

_SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.retention.check.interval.ms": "3000",
    "log.initial.task.delay.ms": "0",
    **consumer_group.SETTINGS,
    **share_group.SETTINGS,
    **streams_group.SETTINGS,
}
_SYNCED = {"log.flush.interval.messages": "1"}
"""With these settings no power cut may lose acknowledged records."""
_SHARING = 0.3
"""The fraction of the seeds with a share group."""
_OUTCOMES = list(Outcome)
_PATIENCE_S = 600
"""The virtual time within which every client must finish once all faults have ended."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of a seed, which failed if there are `violations`."""

    seed: int
    violations: list[str]
    digest: str
    steps: int
    crashes: int
    virtual_s: float
    trace: list[str] | None = None


def has_shares(seed: int) -> bool:
    """Whether the seed has a share group."""
    return Random(f"share {seed}").random() < _SHARING


def simulate(seed: int, *, keeps_trace: bool = False) -> Result:
    """Run one seed from the beginning to the end."""
    loop = new_loop()
    asyncio.set_event_loop(None)
    simulation = _Simulation(seed, loop, Trace(keeps=keeps_trace))
    errors = LoggedErrors()
    logger = logging.getLogger("wirekafka")
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(errors)
    try:
        try:
            loop.run_until_complete(simulation.run())
        except Stuck as stuck:
            simulation.world.surprises.append(str(stuck))
        simulation.world.surprises += errors.messages
        return simulation.result()
    finally:
        logger.removeHandler(errors)
        logger.propagate = was_propagating
        loop.close()


class LoggedErrors(logging.Handler):
    """Records what the broker logs as an error, which is a violation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


class _Simulation:
    def __init__(self, seed: int, loop: VirtualLoop, trace: Trace):
        self.seed = seed
        self.loop = loop
        self.trace = trace
        # One random generator each, so that a further client does not change all the others.
        self.random = Random(f"faults {seed}")
        self.network = Network(loop, Random(f"network {seed}"), trace)
        self._loses_power = self.random.random() < 0.33
        settings = _SETTINGS | (_SYNCED if self._loses_power else {})
        self.node = SimulatedNode(self.network, "node-1", Random(f"node {seed}"), settings)
        self.world = World(self.network, Random(f"clients {seed}"), [self.node.address])
        self._is_over = False
        self._of_first_protocol: set[str] = set()
        """The transactional ids that keep their epoch from one transaction to the next."""
        self._lost: list[Violation] = []
        self._shared = Shared("sharers") if has_shares(seed) else None

    def result(self) -> Result:
        found = [*check(self.world.history), *self._lost]
        violations = [str(each) for each in found] + self.world.surprises
        return Result(
            seed=self.seed,
            violations=violations,
            digest=self.trace.digest(),
            steps=self.world.history.count(),
            crashes=self.node.crashes.total(),
            virtual_s=self.loop.time(),
            trace=self.trace.lines,
        )

    async def run(self) -> None:
        await self.node.start()
        await self.world.prepare()
        if self._shared is not None:
            await self._shared.prepare(self.world)
        self._choose_network_faults()
        finite = [self.loop.create_task(each) for each in self._writers()]
        endless = [self.loop.create_task(each) for each in self._consumers()]
        faults = self.loop.create_task(self._faults())
        await self._finish(finite, "writers")
        self._is_over = True
        await self._finish([faults], "faults")
        self.network.heal()
        self.world.is_ending = True
        await self._finish(endless, "consumers")
        # Wait until each transaction has ended or timed out.
        await asyncio.sleep(2 * TIMEOUT_MS / 1000)
        await self._finish([self.loop.create_task(self._drain())], "last reader")
        if self._shared is not None:
            await self._finish_sharing(self._shared)
        if not self._loses_power:
            await self._finish([self.loop.create_task(self._cut_power())], "reader after all")

    async def _finish_sharing(self, shared: Shared) -> None:
        """Check that every record is processed in the end."""
        await self._finish([self.loop.create_task(shared.finish(self.world))], "last share member")
        drained = self.world.history.drained
        records = {place: [offset for offset, _ in drained[place].uncommitted] for place in PLACES}
        shared.check(self.world, records)

    async def _cut_power(self) -> None:
        """Cut the power: without syncing the ends of the logs may be lost, and nothing else."""
        self.node.outcome = self.random.choice([Outcome.UNSYNCED_LOST, Outcome.PREFIX])
        self.node.crash()
        self.node.recover()
        await self.node.start()
        wire = self.world.wire("after", may_linger=False)
        for place in PLACES:
            # A transaction that lost records can stay open, as in Kafka.
            left = await drained(self.world, wire, place)
            self._lost += check_power_cut(
                place, self.world.history.drained[place], left, self._authors()
            )

    def _authors(self) -> dict[int, Author]:
        """The authors of transactional values; processes are `<id>-<rival>.<incarnation>`."""
        return {
            send.value: Author(
                name := operation.process.rpartition("-")[0],
                operation.began,
                has_first_protocol=name in self._of_first_protocol,
            )
            for operation, send in self.world.history.sends()
            if operation.is_transaction
        }

    def _choose_network_faults(self) -> None:
        faults, random = self.network.faults, self.random
        faults.slow = random.choice([0, 0.01, 0.03])
        faults.torn = random.choice([0, 0.1, 0.5])
        faults.copied = random.choice([0, 0.1])

    def _writers(self) -> list[Coroutine[Any, Any, None]]:
        world, random = self.world, self.random
        writers = [
            IdempotentProducer(world, f"plain-{at}", 25).run() for at in range(random.randint(1, 2))
        ]
        for at in range(random.randint(2, 3)):
            is_second = random.random() < 0.6
            if not is_second:
                self._of_first_protocol.add(f"tx-{at}")
            rivals = 2 if random.random() < 0.25 else 1
            for rival in range(rivals):
                producer = TransactionalProducer(
                    world, f"tx-{at}-{rival}", f"tx-{at}", is_second=is_second
                )
                producer.is_alone = rivals == 1
                writers.append(producer.run(12))
        return writers

    def _consumers(self) -> list[Coroutine[Any, Any, None]]:
        consumers = [
            follow(self.world, "committed", committed=True),
            follow(self.world, "uncommitted", committed=False),
        ]
        consumers += [
            Member(self.world, f"member-{at}", "workers").run()
            for at in range(self.random.randint(1, 3))
        ]
        random = Random(f"broker-assigned {self.seed}")
        consumers += [
            BrokerAssignedMember(self.world, f"assigned-{at}", "readers", random).run()
            for at in range(random.randint(0, 3))
        ]
        if self._shared is not None:
            random = Random(f"share {self.seed}")
            consumers += [
                ShareMember(self.world, f"share-{at}", self._shared, random).run()
                for at in range(random.randint(1, 3))
            ]
        random = Random(f"streams {self.seed}")
        consumers += [
            StreamsProcess(self.world, f"process-{at}", "runners", random).run()
            for at in range(random.randint(0, 3))
        ]
        return consumers

    async def _faults(self) -> None:
        random = self.random
        while not self._is_over:
            await asyncio.sleep(random.expovariate(1.5))
            if self._is_over:
                break
            kind = random.random()
            if kind < 0.6:
                self.network.break_one()
            elif kind < 0.75:
                await self._cut_off()
            else:
                await self._bring_down()
        if not self.node.is_up:
            await self.node.start()
        self.node.crash_soon(-1)

    async def _cut_off(self) -> None:
        """Cut one or both directions between a client and the node temporarily."""
        random, network, node = self.random, self.network, self.node.name
        client = random.choice([name for name in network.names if name != node])
        ways = random.choice([[(client, node)], [(node, client)], [(client, node), (node, client)]])
        for source, target in ways:
            network.cut(source, target)
        await asyncio.sleep(random.uniform(0.1, 6))
        for source, target in ways:
            network.mend(source, target)

    async def _bring_down(self) -> None:
        random, node = self.random, self.node
        how = random.random()
        node.outcome = random.choice(_OUTCOMES) if self._loses_power else Outcome.ALL_KEPT
        if how < 0.15:
            await node.stop()
        elif how < 0.5:
            node.crash()
            node.recover()
        else:
            node.crash_soon(random.randint(1, 60))
            for _ in range(50):
                await asyncio.sleep(0.1)
                if not node.is_up:
                    break
            else:
                node.crash()
            node.recover()
            if random.random() < 0.3:
                node.crash_soon(random.randint(1, 40))
        await asyncio.sleep(random.uniform(0.01, 1))
        await node.start()

    async def _finish(self, tasks: list[asyncio.Task[Any]], who: str) -> None:
        done, pending = await asyncio.wait(tasks, timeout=_PATIENCE_S)
        for task in done:
            if task.exception() is not None:
                raise task.exception()  # type: ignore[misc]
        if pending:
            self.world.surprises.append(f"{len(pending)} {who} did not come through")
            for task in pending:
                task.cancel()

    async def _drain(self) -> None:
        """Read all records."""
        world = self.world
        await drain_all(world, world.wire("drain", may_linger=False))
        for place in PLACES:
            end_offset = world.history.drained[place].end_offset
            if end_offset != self.node.broker.partition(*place).high_watermark:
                world.surprises.append(f"{place} is stable up to {end_offset} for ever")
        for path, data in sorted(self.node.files().items()):
            self.trace.moved(self.loop.time(), path, data)


async def follow(world: World, name: str, *, committed: bool) -> None:
    """Read all records as they arrive, on assigned partitions."""
    wire = world.wire(name, may_linger=True)
    reader = Reader(wire, world.topic_ids, committed=committed, by_id=not committed)
    reader.seek(dict.fromkeys(PLACES, 0))
    while not world.is_ending:
        try:
            world.history.read(name, await reader.poll())
        except Lost:
            await wire.pause()
        except Refused as refused:
            world.surprises.append(f"{name} got the error {refused}")
            break
        await sleep(world, 0.2)
    wire.close()


async def drain_all(world: World, wire: Wire) -> None:
    """Read all records and committed offsets, as the end of the history."""
    wire.forget()
    for place in PLACES:
        world.history.drained[place] = await drained(world, wire, place)
    keys = {
        (commit.group, commit.place)
        for operation in world.history.operations
        for commit in operation.offset_commits()
    }
    for group, place in sorted(keys):
        world.history.group_offsets[group, place] = await group_offset(wire, group, place)


async def drained(world: World, wire: Any, place: Place) -> Drained:
    """Every record of a place, as both isolation levels see them."""
    readers = [
        Reader(wire, world.topic_ids, committed=committed, by_id=True)
        for committed in (True, False)
    ]
    found = [
        [(offset, value) for _, offset, value in await read_to_end(reader, [place])]
        for reader in readers
    ]
    stable_end, log_end = (reader.ends[place] for reader in readers)
    return Drained(found[0], found[1], stable_end, log_end)


async def group_offset(wire: Any, group: str, place: Place) -> int:
    kind = OffsetFetchRequest.Group
    request = OffsetFetchRequest(
        require_stable=True,
        groups=[
            kind(group_id=group, topics=[kind.Topics(name=place[0], partition_indexes=[place[1]])])
        ],
    )
    answer = await ask_until(
        wire,
        request,
        8,
        lambda answer: (
            answer.groups[0].error_code == 0
            and answer.groups[0].topics[0].partitions[0].error_code == 0
        ),
        Coordinator(GROUP, group),
    )
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset
