"""Tiered topics that are created, written to, no longer tiered, tiered again, and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.histories.history import Place
from tests.simulation.cluster.shape import REPLICAS
from tests.simulation.producer import IdempotentProducer
from tests.simulation.tiered.shape import TIERED
from tests.simulation.wire import Lost
from tests.simulation.world import World
from wirekafka.codec.message import Request
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest

if TYPE_CHECKING:
    from tests.simulation.tiered.simulation import TieredSimulation

_NAMES = ("passing-0", "passing-1")
_TIMEOUT_MS = 4_000
_TOPIC, _SET = 2, 0


class _OwnWorld(World):
    """The state of a producer to one of these topics."""

    place: Place = ("", 0)

    def a_place(self) -> Place:
        return self.place


class PassingTopics:
    """Changes topics at random: nothing may be left in the store of those that are gone."""

    def __init__(self, simulation: TieredSimulation):
        self._simulation = simulation
        self._random = random = Random(f"passing {simulation.seed}")
        self._world = _OwnWorld(simulation.network, random, simulation.world.bootstrap)
        self._wire = self._world.wire("passing", may_linger=True)
        self._steps = random.choice((0, 6, 12))

    async def run(self) -> None:
        """Make some changes, each at one of the topics."""
        for _ in range(self._steps):
            await asyncio.sleep(self._random.uniform(0.05, 1.5))
            name = self._random.choice(_NAMES)
            step: Callable[[str], Awaitable[Any]] = self._random.choice(
                (self._create, self._write, self._write, self._disable, self._enable, self._delete)
            )
            await step(name)
        self._wire.close()

    async def _create(self, name: str) -> None:
        kind = CreateTopicsRequest.CreatableTopic
        topic = kind(
            name=name,
            num_partitions=1,
            replication_factor=REPLICAS,
            configs=[kind.CreatableTopicConfig(name=key, value=TIERED[key]) for key in TIERED],
        )
        await self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 7)

    async def _write(self, name: str) -> None:
        """Write some batches, unless the topic is gone."""
        named = MetadataRequest(topics=[MetadataRequest.Topic(name=name)])
        found = await self._ask(named, 12)
        if found is None or found.topics[0].error_code:
            await self._create(name)
            return
        world = self._world
        world.place = name, 0
        world.topic_ids[name] = found.topics[0].topic_id
        try:
            async with asyncio.timeout(3):
                await IdempotentProducer(world, f"passing-{self._random.random()}", 10).run()
        except TimeoutError:
            pass

    async def _disable(self, name: str) -> None:
        await self._configure(
            name, {"remote.log.delete.on.disable": "true", "remote.storage.enable": "false"}
        )

    async def _enable(self, name: str) -> None:
        await self._configure(name, {"remote.storage.enable": "true"})

    async def _configure(self, name: str, values: dict[str, str]) -> None:
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            kind.AlterableConfig(name=key, config_operation=_SET, value=value)
            for key, value in values.items()
        ]
        resource = kind(resource_type=_TOPIC, resource_name=name, configs=configs)
        await self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    async def _delete(self, name: str) -> None:
        state = DeleteTopicsRequest.DeleteTopicState(name=name)
        await self._ask(DeleteTopicsRequest(topics=[state], timeout_ms=_TIMEOUT_MS), 6)

    async def _ask(self, request: Request, version: int) -> Any:
        """The response; None if there is none."""
        name = type(request).__name__
        try:
            answer = await self._wire.ask(request, version, timeout_s=_TIMEOUT_MS / 1000 + 1)
        except Lost:
            self._wire.forget()
            return None
        self._simulation.note(f"passing: {name}")
        return answer
