"""An idempotent producer: several batches in flight, retried until each is acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.histories.history import Operation, Place, Send, Verdict
from tests.simulation.wire import BUSY, Leader, Lost, Wire
from tests.simulation.world import World, ask_until_not_busy, sleep
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.produce import ProduceRequest

_IN_FLIGHT = 5
_TIME_MS = 1_700_000_000_000


@dataclass(slots=True, kw_only=True)
class Batch:
    """The records of one operation for one place; the same bytes in each retry."""

    place: Place
    sends: list[Send]
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional_id: str | None = None

    def request(self, topic_id: bytes) -> ProduceRequest:
        """A Produce request with only this batch."""
        name, index = self.place
        kind = ProduceRequest.TopicProduceData
        records = encode_batch(
            [
                Record(at, _TIME_MS + send.value, None, str(send.value).encode(), ())
                for at, send in enumerate(self.sends)
            ],
            options=BatchOptions(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=self.transactional_id is not None,
            ),
        )
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                kind(
                    name=name,
                    topic_id=topic_id,
                    partition_data=[kind.PartitionProduceData(index=index, records=records)],
                )
            ],
        )

    def acknowledged(self, base_offset: int) -> None:
        """Record its base offset."""
        for at, send in enumerate(self.sends):
            send.offset = base_offset + at


def outcome(answer: Any) -> Any:
    """The result of a Produce request with one batch."""
    return answer.responses[0].partition_responses[0]


class IdempotentProducer:
    """Writes `count` batches to random places. Only a power cut may make it lose its state."""

    def __init__(self, world: World, name: str, count: int):
        self._world = world
        self._wire: Wire = world.wire(name, may_linger=True)
        self._name = name
        self._count = count
        self._version = world.random.choice([9, 12, 13])
        self._sequences: dict[Place, int] = {}
        self._pending: deque[tuple[Operation, Batch]] = deque()
        self._identity = -1, -1

    async def run(self) -> None:
        """Write all batches, and return when all are acknowledged."""
        answer = await ask_until_not_busy(
            self._wire,
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
            4,
            lambda answer: answer.error_code,
        )
        self._identity = answer.producer_id, answer.producer_epoch
        remaining = self._count
        while remaining or self._pending:
            while remaining and len(self._pending) < _IN_FLIGHT:
                self._pending.append(self._new_batch())
                remaining -= 1
            if not await self._push():
                await self._wire.pause()
            await sleep(self._world, 0.05)
        self._wire.close()

    def _new_batch(self) -> tuple[Operation, Batch]:
        world = self._world
        place = world.a_place()
        sends = [Send(place, world.new_value()) for _ in range(world.random.randint(1, 3))]
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(sends)
        batch = Batch(
            place=place,
            sends=sends,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=sequence,
        )
        return world.history.begin(self._name, *sends), batch

    async def _push(self) -> bool:
        """Send pending batches in order; returns whether all were acknowledged."""
        futures: list[asyncio.Future[Any]] = []
        try:
            for _, batch in self._pending:
                request = batch.request(self._world.topic_ids[batch.place[0]])
                whom = Leader(*batch.place)
                futures.append(await self._wire.send(request, self._version, whom))
            for at, future in enumerate(futures):
                if not self._acknowledged(outcome(await future), is_first=at == 0):
                    self._wire.close()
                    return False
        except Lost:
            return False
        return True

    def _acknowledged(self, answer: Any, *, is_first: bool) -> bool:
        error = Error(answer.error_code)
        if error is Error.NONE or error is Error.DUPLICATE_SEQUENCE_NUMBER:
            operation, batch = self._pending.popleft()
            if error is Error.NONE:
                batch.acknowledged(answer.base_offset)
            self._world.history.end(operation, Verdict.DONE)
            return True
        if error not in BUSY and is_first:
            # Batches after a refused one are out of order; the first batch never is.
            _, batch = self._pending.popleft()
            if error is not Error.OUT_OF_ORDER_SEQUENCE_NUMBER or not self._has_others(batch):
                self._world.surprises.append(f"{self._name}: {error.name} for its oldest batch")
        return False

    def _has_others(self, batch: Batch) -> bool:
        """Whether a later batch went to the same place, so that this one may be stored as well.

        Kafka's producer snapshots keep only the last batch: after a restart, a retry of an earlier
        one is not recognized as a duplicate, and refused as out of order.
        """
        return any(other.place == batch.place for _, other in self._pending)
