"""Where requests wait for data: woken by the append that brings it, never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from wirekafka.clock import Clock


class Watched:
    """Something that changes and that requests wait for; a partition, say."""

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        self.watchers: dict[Watcher, None] = {}

    def wake(self) -> None:
        """Let every waiter look at what changed; cheap to skip while `watchers` is empty."""
        for waiter in tuple(self.watchers):
            waiter.look(self)


class Watcher(Protocol):
    """Who is told of every change, and takes itself out of `watchers` when it has seen enough."""

    def look(self, changed: Watched) -> None:
        """Look at what changed."""


class Waiter:
    """One parked request."""

    __slots__ = ("_ready", "future")

    def __init__(self, ready: Callable[[Watched], bool]):
        self._ready = ready
        self.future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def look(self, changed: Watched) -> None:
        """Release the request when what it waits for is there."""
        if not self.future.done() and self._ready(changed):
            self.future.set_result(True)

    def release(self) -> None:
        """Let the request go on with what there is."""
        if not self.future.done():
            self.future.set_result(False)


class Waiting:
    """All parked requests of a broker (Kafka's purgatory)."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self._parked: dict[Waiter, None] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._parked)

    async def until(self, ready: Callable[[Watched], bool], watched: Iterable[Watched],
                    deadline_ms: int) -> bool:
        """Suspend until `ready(changed)` holds for something that changed, or the deadline.

        `ready` is asked upon each change, not at the start. Returns whether it held. The watches
        end with the wait, however it ends.
        """
        if self._closed:
            return False
        waiter = Waiter(ready)
        delay_ms = max(deadline_ms - self.clock.now_ms(), 0)
        timer = self.clock.call_later(delay_ms, waiter.release)
        watched = tuple(watched)
        for each in watched:
            each.watchers[waiter] = None
        self._parked[waiter] = None
        try:
            return await waiter.future
        finally:
            timer.cancel()
            del self._parked[waiter]
            for each in watched:
                del each.watchers[waiter]

    def close(self) -> None:
        """Release everyone, and let nobody wait any more."""
        self._closed = True
        self.release_all()

    def release_all(self) -> None:
        """Let everyone go on with what there is."""
        for waiter in tuple(self._parked):
            waiter.release()
