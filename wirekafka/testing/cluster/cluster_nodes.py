"""The brokers and controllers of a cluster under test, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TypeVar

from wirekafka.log.checkpoints import uuid_text
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.server.node import Platform
from wirekafka.testing.cluster.cluster_settings import LOOPBACK, ClusterLayout
from wirekafka.testing.cluster.controller_engine import ControllerEngine
from wirekafka.testing.engine import Engine
from wirekafka.testing.hooks.traffic import Recorder
from wirekafka.testing.loop_thread import EngineGone, LoopThread
from wirekafka.testing.net import BETWEEN_NODES, ClusterLinks
from wirekafka.testing.setup import Place, Setup

T = TypeVar("T")

START_TIMEOUT_S = 30.0


class Nodes:
    """All nodes by id, and the links between them; its methods are called on the event loop."""

    def __init__(self, layout: ClusterLayout, directory: str, *, syncs: bool):
        """Raises OSError, ValueError."""
        self.thread = LoopThread()
        self.links = ClusterLinks()
        self.paused: set[int] = set()
        self.isolated: set[int] = set()
        self._serial = count(1)
        cluster_id = uuid_text(Platform().new_id())
        voters = {id: self.links.reserve(id, LOOPBACK) for id in layout.controller_ids}

        def setup(node_id: int, settings: dict[str, str]) -> Setup:
            return Setup(
                settings=settings,
                directory=f"{directory}/{node_id}",
                host=layout.host,
                protocol=layout.protocol,
                syncs=syncs,
                other_listeners=(f"{BETWEEN_NODES}://{LOOPBACK}:0",),
            )

        self.controllers = {
            id: ControllerEngine(
                setup(id, layout.of_controller(id, voters)), self._place(id), cluster_id
            )
            for id in layout.controller_ids
        }
        self.brokers = {
            id: Engine(setup(id, layout.of_broker(id, voters)), self._place(id))
            for id in layout.broker_ids
        }

    def _place(self, node_id: int) -> Place:
        return Place(
            thread=self.thread,
            net=self.links.net(node_id),
            is_in_cluster=True,
            recorder=lambda: Recorder(node_id, self._serial),
        )

    # Starting and stopping.

    async def start(self) -> dict[int, tuple[str, int]]:
        """Start all nodes; returns the brokers' addresses. Raises OSError, ValueError."""
        async with asyncio.timeout(START_TIMEOUT_S):
            await _all(each.start_node() for each in self.controllers.values())
            addresses = await _all(each.start_node() for each in self.brokers.values())
        return dict(zip(self.brokers, addresses, strict=True))

    async def stop(self) -> None:
        """Stop all nodes, cleanly if there is a controller; the last nodes have no successor."""
        self.end_faults()
        if self.active is not None:
            await _all(each.stop_node() for each in self.brokers.values())
        if len(self.controllers) == 1:
            await _all(each.stop_node() for each in self.controllers.values())

    def abort(self) -> None:
        """Stop all nodes as `kill -9` does, and free their ports."""
        for broker in self.brokers.values():
            broker.abort_node()
        for controller in self.controllers.values():
            controller.abort_node()
        self.links.close()

    async def start_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Start nodes that are down. Raises TimeoutError, for example without a controller."""
        controllers = [self.controllers[id] for id in node_ids if id in self.controllers]
        brokers = [self.brokers[id] for id in node_ids if id in self.brokers]
        async with asyncio.timeout(START_TIMEOUT_S):
            await _all(each.start_node() for each in controllers if not each.is_up)
            await _all(each.start_node() for each in brokers if not each.is_up)

    async def stop_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Stop nodes cleanly, one after the other."""
        for node_id in node_ids:
            self.resume(node_id)
            await self.node(node_id).stop_node()

    async def kill(self, node_ids: tuple[int, ...]) -> None:
        """Stop nodes as `kill -9` does, at the same time."""
        for node_id in node_ids:
            self.node(node_id).abort_node()
            self.resume(node_id)
        await asyncio.sleep(0)

    def node(self, node_id: int) -> Engine | ControllerEngine:
        """A node by its id, which must exist."""
        return self.brokers.get(node_id) or self.controllers[node_id]

    # Faults.

    def pause(self, node_id: int) -> None:
        """Stop a node as SIGSTOP does. Raises EngineGone if it is down."""
        if not self.node(node_id).is_up:
            raise EngineGone(f"node {node_id} is down")
        self.paused.add(node_id)
        self.links.pause(node_id)
        self.node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """Let a node continue as SIGCONT does; nothing if it is not paused."""
        if node_id in self.paused:
            self.paused.discard(node_id)
            self.node(node_id).resume()
            self.links.resume(node_id)

    def isolate(self, node_id: int) -> None:
        """Cut the links between a node and all other nodes."""
        self.isolated.add(node_id)
        self.links.isolate(node_id)

    def heal(self, node_id: int) -> None:
        """Undo `isolate`."""
        self.isolated.discard(node_id)
        self.links.heal(node_id)

    def end_faults(self) -> None:
        """Resume, heal and speed up everything."""
        for node_id in tuple(self.paused):
            self.resume(node_id)
        self.isolated.clear()
        self.links.reset()

    # What the nodes know.

    @property
    def active(self) -> int | None:
        """The id of the active controller; None while no reachable controller is active."""
        reachable = self.controllers.keys() - self.paused - self.isolated
        found = [id for id in reachable if self.controllers[id].is_active]
        return max(found, key=lambda id: self.controllers[id].epoch, default=None)

    def image(self) -> MetadataImage:
        """The newest committed metadata of any node that runs. Raises EngineGone."""
        active = self.active
        if active is not None:
            return self.controllers[active].image
        for controller in self.controllers.values():
            if controller.is_up:
                return controller.image
        return self.reachable()[0].node.broker.image

    def reachable(self) -> list[Engine]:
        """The brokers that run and reach other nodes. Raises EngineGone if there is none."""
        found = [
            broker
            for id, broker in self.brokers.items()
            if broker.is_up and id not in self.paused | self.isolated
        ]
        if not found:
            raise EngineGone("no broker of the cluster can be reached: start or heal one")
        return found

    def running(self) -> list[Engine]:
        """The brokers that are neither down nor paused."""
        return [
            broker for id, broker in self.brokers.items() if broker.is_up and id not in self.paused
        ]

    def knows(self, holds: Callable[[MetadataImage], bool]) -> bool:
        """Whether the metadata of every reachable broker is so."""
        return all(holds(broker.node.broker.image) for broker in self.reachable())


async def _all(awaited: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all awaitables; if one fails, all have ended before its error is raised."""
    ended = await asyncio.gather(*awaited, return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return [each for each in ended if not isinstance(each, BaseException)]
