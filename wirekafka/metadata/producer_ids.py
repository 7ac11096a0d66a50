"""Producer ids: the controller gives a broker blocks of them, the broker hands out single ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.records import ProducerIdsRecord
from wirekafka.replication.runtime import Runtime

BLOCK_SIZE = 1000
_LAST_ID = (1 << 63) - 1


class Block(NamedTuple):
    """Ids from `first`, below `end`."""

    first: int
    end: int


@dataclass(frozen=True)
class AllocateProducerIds:
    """Give a broker the next block; the reply is a `Block`."""

    broker_id: int
    broker_epoch: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """One record that names where the *next* block begins. Raises STALE_BROKER_EPOCH."""
        broker = state.image.brokers.get(self.broker_id)
        if broker is None:
            raise KafkaError(Error.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != self.broker_epoch:
            raise KafkaError(Error.STALE_BROKER_EPOCH,
                             f"Expected broker epoch {broker.epoch}, but got {self.broker_epoch}")
        first = state.image.next_producer_id
        if first > _LAST_ID - BLOCK_SIZE:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR, "All producer ids are used up")
        end = first + BLOCK_SIZE
        record = ProducerIdsRecord(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=end)
        return Decision((record,), Block(first, end))


class ProducerIds:
    """A broker's supply of ids that no producer had before. A restart leaves the rest of a
    block unused: which of its ids were given is not recorded."""

    def __init__(self, controller: Runtime, broker_id: int):
        self._controller = controller
        self._broker_id = broker_id
        self.broker_epoch = -1
        self._block = Block(0, 0)

    async def next(self) -> int:
        """A fresh id; waits for the controller when the block is used up."""
        await self.reserve()
        return self.take()

    async def reserve(self) -> None:
        """See to it that `take` has an id to give, until others run."""
        while self._block.first >= self._block.end:
            # Others may ask for a block meanwhile; one that goes unused does no harm.
            self._block = await self._controller.submit(
                AllocateProducerIds(self._broker_id, self.broker_epoch))

    def take(self) -> int:
        """A fresh id at once. Raises COORDINATOR_LOAD_IN_PROGRESS when the block is used up."""
        first, end = self._block
        if first >= end:
            raise KafkaError(Error.COORDINATOR_LOAD_IN_PROGRESS)
        self._block = Block(first + 1, end)
        return first
