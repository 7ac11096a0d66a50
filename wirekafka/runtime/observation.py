"""Delivery of committed batches to an observer: each once, in order, retried on failure."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from wirekafka.clock import Clock, Timer
from wirekafka.runtime.backoff import Backoff
from wirekafka.runtime.promise import Promise

logger = logging.getLogger(__name__)

ATTEMPTS = 8
"""How often a batch is delivered to an observer that fails, before it is given up."""

_BACKOFF = Backoff(first_ms=100, longest_ms=5_000)
_DONE = object()


class Committed(NamedTuple):
    """A committed batch of a machine's records, and its end offset in the log.

    The records of a snapshot replace everything that was delivered before.
    """

    records: Sequence[Any]
    end_offset: int
    is_snapshot: bool = False


Observer = Callable[[Committed], Iterator[None] | None]
"""Processes one batch. Long work is returned as an iterator of steps, for instance by being a
generator: the event loop runs other work between the steps. If it raises, the batch is delivered
again, from its first step, before any later one."""


class Observation:
    """The queue of one observer; created by `Runtime.observe`."""

    def __init__(
        self, observer: Observer, clock: Clock, position: int, failed: Callable[[Exception], None]
    ):
        self.position = position
        """The offset up to which the observer has processed the log."""
        self._observer = observer
        self._clock = clock
        self._failed = failed
        self._queue: deque[Committed] = deque()
        self._steps: Iterator[None] | None = None
        self._attempts = 0
        self._is_busy = False
        self._timer: Timer | None = None
        self._waiting: list[tuple[int, Promise[None]]] = []
        self._end: Exception | None = None

    async def reached(self, offset: int) -> None:
        """Return once everything below `offset` was processed; does not suspend if it was.

        Raises the error that ended the observation, if one did.
        """
        if self.position >= offset:
            return
        promise: Promise[None] = Promise()
        if self._end is not None:
            promise.set(self._end)
        else:
            self._waiting.append((offset, promise))
        await promise

    @property
    def is_ready(self) -> bool:
        """Whether batches are queued and no delivery is in progress."""
        return bool(self._queue) and not self._is_busy

    def add(self, batch: Committed) -> None:
        """Queue a batch behind the queued batches."""
        if self._end is None:
            self._queue.append(batch)

    def deliver(self) -> None:
        """Deliver the queued batches; returns early if further steps or a retry have to wait."""
        if self.is_ready:
            self._is_busy = True
            self._go_on()

    def close(self, error: Exception) -> None:
        """Deliver nothing more; waiting calls of `reached` raise the error."""
        self._end = error
        self._queue.clear()
        self._steps = None
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, []
        for _, promise in waiting:
            promise.set(error)

    def fail(self, error: Exception) -> None:
        """Deliver nothing more, because the log cannot be read."""
        self.close(error)
        self._failed(error)

    def _go_on(self) -> None:
        while self._queue:
            batch = self._queue[0]
            try:
                if self._steps is None:
                    self._steps = self._begun(batch)
                is_done = next(self._steps, _DONE) is _DONE
            except Exception as error:
                self._retry(error)
                return
            if self._end is not None:
                return
            if not is_done:
                self._timer = self._clock.call_later(0, self._go_on)
                return
            self._queue.popleft()
            self._steps = None
            self._attempts = 0
            self._move_to(batch.end_offset)
        self._is_busy = False

    def _begun(self, batch: Committed) -> Iterator[None]:
        """The steps of processing a batch; one without records only advances the position."""
        return (self._observer(batch) if batch.records else None) or iter(())

    def _move_to(self, offset: int) -> None:
        self.position = max(self.position, offset)
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for wanted, promise in waiting:
            if wanted <= self.position:
                promise.set(None)
            else:
                self._waiting.append((wanted, promise))

    def _retry(self, error: Exception) -> None:
        if self._end is not None:
            return
        self._steps = None
        self._attempts += 1
        if self._attempts >= ATTEMPTS:
            logger.critical(
                "Processing records up to offset %d failed %d times; giving up",
                self._queue[0].end_offset,
                self._attempts,
                exc_info=error,
            )
            self.fail(error)
            return
        logger.warning(
            "Processing records up to offset %d failed; it is retried",
            self._queue[0].end_offset,
            exc_info=error,
        )
        delay_ms = _BACKOFF.delay_ms(self._attempts - 1)
        self._timer = self._clock.call_later(delay_ms, self._go_on)
