"""Parked requests (Kafka's purgatory): woken by the append they wait for, never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from wirekafka.clock import Clock, Timer


class Watched:
    """An object whose changes parked requests wait for, such as a partition."""

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}

    def wake(self) -> None:
        """Call every watcher. Callers may skip it while `watchers` is empty."""
        for waiter in tuple(self.watchers):
            if waiter in self.watchers:  # An earlier one may have had it removed.
                waiter.look(self)


class Watcher(Protocol):
    """Is called at every change of a watched object, until it is removed from `watchers`."""

    def look(self, changed: Watched) -> None:
        """Check whether the change ends the wait."""


class WaitingRequest(Protocol):
    """A request that waits."""

    def release(self) -> None:
        """End the wait, as at its deadline; ignored if it has ended."""


class Waiter:
    """One parked request of a handler."""

    __slots__ = ("_ready", "future")

    def __init__(self, ready: Callable[[Watched], bool]):
        self._ready = ready
        self.future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def look(self, changed: Watched) -> None:
        """Release the request if its condition holds."""
        if not self.future.done() and self._ready(changed):
            self.future.set_result(True)

    def release(self) -> None:
        """Release the request although its condition does not hold, as at its deadline."""
        if not self.future.done():
            self.future.set_result(False)


class GatheringWaiter(Waiter):
    """A parked request that is released one turn of the event loop after its condition holds.

    So its response also has what other connections' requests of that turn append.
    """

    __slots__ = ("_is_due",)

    def __init__(self, ready: Callable[[Watched], bool]):
        super().__init__(ready)
        self._is_due = False

    def look(self, changed: Watched) -> None:
        """Release the request in the next turn if its condition holds."""
        if not self._is_due and not self.future.done() and self._ready(changed):
            self._is_due = True
            self.future.get_loop().call_soon(self._release_ready)

    def _release_ready(self) -> None:
        if not self.future.done():
            self.future.set_result(True)


class Waiting:
    """All parked requests of a broker."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self._parked: dict[WaitingRequest, None] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, parked: WaitingRequest, limit_ms: float) -> Timer:
        """Have `parked.release` called at a deadline, or when all requests are released.

        The caller calls `unpark` and cancels the timer when the wait ends.
        """
        if self._closed:
            parked.release()
        self._parked[parked] = None
        return self.clock.call_later(limit_ms, parked.release)

    def unpark(self, parked: WaitingRequest) -> None:
        """Undo `park`."""
        self._parked.pop(parked, None)

    async def until(
        self,
        ready: Callable[[Watched], bool],
        watched: Iterable[Watched],
        deadline_ms: int,
        *,
        gathers: bool = False,
    ) -> bool:
        """Suspend until `ready(changed)` holds for something that changed, or the deadline.

        `ready` is called upon each change, not at the start. Returns whether it held. `gathers`
        lets further changes of the same turn of the event loop happen first. The watchers are
        removed when the wait ends, also if it is cancelled.
        """
        if self._closed:
            return False
        waiter = GatheringWaiter(ready) if gathers else Waiter(ready)
        timer = self.park(waiter, max(deadline_ms - self.clock.now_ms(), 0))
        watched = tuple(watched)
        for each in watched:
            each.watchers[waiter] = None
        try:
            return await waiter.future
        finally:
            timer.cancel()
            self.unpark(waiter)
            for each in watched:
                del each.watchers[waiter]

    def close(self) -> None:
        """Release all requests; later calls of `until` return at once."""
        self._closed = True
        self.release_all()

    def release_all(self) -> None:
        """Release all requests, as at their deadline."""
        for parked in tuple(self._parked):
            parked.release()
