"""A node of a simulated cluster with an object store."""

from __future__ import annotations

from random import Random

from tests.simulation.cluster.member import Member
from tests.simulation.cluster.shape import NodeSpec, Shape
from tests.simulation.network import Network
from tests.simulation.tiered.store import SimulatedStore, StoreClient
from tests.simulation.tiered.threads import Threads
from wirekafka.server.node import Node
from wirekafka.server.tiering.tiering import Tiering
from wirekafka.server.tiering.work import Run
from wirekafka.tiered.store import Store


class TieredMember(Member):
    """One node; the store is shared by all of them."""

    def __init__(
        self, network: Network, spec: NodeSpec, shape: Shape, random: Random, store: SimulatedStore
    ):
        self._store = store
        self._threads: Threads | None = None
        super().__init__(network, spec, shape, random)

    @property
    def tiering(self) -> Tiering:
        """Its tiered storage; the node is up."""
        node = self.node
        assert isinstance(node, Node) and node.tiering is not None
        return node.tiering

    def store(self) -> tuple[Store | None, Run | None]:
        self._threads = Threads(self.loop)
        return StoreClient(self._store, self.name, self._threads), self._threads.run

    def _ended(self) -> None:
        super()._ended()
        if self._threads is not None:
            self._threads.end()
