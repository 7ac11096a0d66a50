"""Queues of items for other brokers, with one request in flight per broker."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.driver import start

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Queued(Generic[Item, Result]):
    """An item, and the callback that gets its result or the error of its request."""

    item: Item
    answered: Callable[[Result | KafkaError], None]


@dataclass(slots=True)
class _Queue(Generic[Item, Result]):
    waiting: list[Queued[Item, Result]] = field(default_factory=list)
    is_busy: bool = False


class BrokerQueues(Generic[Item, Result]):
    """Sends items to brokers in batches, as Kafka's marker and verification senders do.

    `send` is called with a broker id and the items of one request, and returns a result for each;
    if it raises, each item gets the error. While a request to a broker is in flight, further items
    for it wait, and all go into the next request.
    """

    def __init__(self, send: Callable[[int, Sequence[Item]], Awaitable[Sequence[Result]]]):
        self._send = send
        self._queues: dict[int, _Queue[Item, Result]] = {}

    def add(self, broker_id: int, queued: Queued[Item, Result]) -> None:
        """Queue an item; it is sent at once if no request to that broker is in flight."""
        queue = self._queues.setdefault(broker_id, _Queue())
        queue.waiting.append(queued)
        if not queue.is_busy:
            queue.is_busy = True
            start(self._drain(broker_id, queue))

    def waiting(self, broker_id: int) -> Sequence[Queued[Item, Result]]:
        """The items for a broker that are not in a request yet; must not be changed."""
        queue = self._queues.get(broker_id)
        return () if queue is None else queue.waiting

    def withdraw(self, broker_id: int, queued: Queued[Item, Result]) -> None:
        """Remove a waiting item; its callback is not called."""
        self._queues[broker_id].waiting.remove(queued)

    async def _drain(self, broker_id: int, queue: _Queue[Item, Result]) -> None:
        while queue.waiting:
            batch = queue.waiting
            queue.waiting = []
            results = await self._results(broker_id, batch)
            for queued, result in zip(batch, results, strict=True):
                try:
                    queued.answered(result)
                except Exception:
                    logger.exception("Processing a response of broker %d failed", broker_id)
        queue.is_busy = False

    async def _results(
        self, broker_id: int, batch: Sequence[Queued[Item, Result]]
    ) -> Sequence[Result | KafkaError]:
        try:
            results = await self._send(broker_id, [queued.item for queued in batch])
            assert len(results) == len(batch), "a result for each item"
        except KafkaError as error:
            return [error] * len(batch)
        except Exception:
            logger.exception("A request to broker %d failed", broker_id)
            return [KafkaError(Error.UNKNOWN_SERVER_ERROR)] * len(batch)
        return results
