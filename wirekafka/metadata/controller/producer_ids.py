"""Producer ids: the controller allocates blocks to brokers, which assign single ids (KIP-730)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState, Decision
from wirekafka.metadata.controller.registration import registered
from wirekafka.protocol.records.metadata import ProducerIdsRecord
from wirekafka.runtime.machine import command

BLOCK_SIZE = 1000
_LAST_ID = (1 << 63) - 1


class Block(NamedTuple):
    """The ids from `first` up to but excluding `end`."""

    first: int
    end: int


@command
class AllocateProducerIds(ControllerCommand[Block]):
    """Allocate the next block to a broker; the reply is a `Block`."""

    broker_id: int
    broker_epoch: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[Block]:
        """Return one record, with the first id of the *next* block. Raises as `registered`."""
        registered(state, self.broker_id, self.broker_epoch)
        first = state.image.next_producer_id
        if first > _LAST_ID - BLOCK_SIZE:
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR, "All producer ids are used up")
        end = first + BLOCK_SIZE
        record = ProducerIdsRecord(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=end
        )
        return Decision((record,), Block(first, end))


class ProducerIdSupply:
    """A broker's supply of unused producer ids.

    A restart discards the rest of a block: assigned ids are not recorded.
    """

    def __init__(self, allocate: Callable[[], Awaitable[Block]]):
        self._allocate = allocate
        self._block = Block(0, 0)

    def discard(self) -> None:
        """Leave the rest of the block unused: later ids have to be above."""
        self._block = Block(0, 0)

    async def next(self) -> int:
        """Return an unused id; waits for the controller when the block is used up."""
        await self.reserve()
        return self.take()

    async def reserve(self) -> None:
        """Wait until `take` can return an id; holds until the caller next suspends."""
        while self._block.first >= self._block.end:
            # Concurrent calls may each allocate a block; an unused one does no harm.
            self._block = await self._allocate()

    def take(self) -> int:
        """Return an unused id. Raises COORDINATOR_LOAD_IN_PROGRESS if the block is used up."""
        first, end = self._block
        if first >= end:
            raise KafkaError(Error.COORDINATOR_LOAD_IN_PROGRESS)
        self._block = Block(first + 1, end)
        return first
