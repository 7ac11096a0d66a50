"""The clients of a simulated cluster, drawn from its seed."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.consumer_group import BrokerAssignedMember
from tests.simulation.group import Member
from tests.simulation.producer import IdempotentProducer
from tests.simulation.simulation import follow
from tests.simulation.transactions import TransactionalProducer

if TYPE_CHECKING:
    from tests.simulation.cluster.simulation import Simulation

_TRANSACTIONS = 0.5
_GROUPS = 0.5


class Clients:
    """Producers that write a number of batches, and consumers that go on until the world ends."""

    def __init__(self, simulation: Simulation):
        self._world = simulation.world
        self._random = random = Random(f"which clients {simulation.seed}")
        self.has_transactions = random.random() < _TRANSACTIONS
        self._has_groups = random.random() < _GROUPS

    def writers(self) -> list[Coroutine[Any, Any, None]]:
        """Idempotent producers, and transactional ones in some seeds."""
        world, random = self._world, self._random
        writers = [
            IdempotentProducer(world, f"plain-{at}", 30).run() for at in range(random.randint(1, 2))
        ]
        for at in range(random.randint(1, 2) if self.has_transactions else 0):
            producer = TransactionalProducer(
                world, f"tx-{at}-0", f"tx-{at}", is_second=random.random() < 0.6
            )
            # While no coordinator can be reached, transactions time out.
            producer.is_alone = False
            writers.append(producer.run(8))
        return writers

    def consumers(self) -> list[Coroutine[Any, Any, None]]:
        """Two that read everything, and members of groups in some seeds."""
        world, random = self._world, self._random
        consumers = [
            follow(world, "committed", committed=True),
            follow(world, "uncommitted", committed=False),
        ]
        if self._has_groups:
            consumers += [
                Member(world, f"member-{at}", "workers").run() for at in range(random.randint(1, 2))
            ]
            consumers += [
                BrokerAssignedMember(world, f"assigned-{at}", "readers", random).run()
                for at in range(random.randint(0, 2))
            ]
        return consumers
