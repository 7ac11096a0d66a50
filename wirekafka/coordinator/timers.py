"""Many deadlines, moved often and met seldom: one heap with lazy deletion."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from itertools import count


class Timers:
    """At most one deadline per key, in milliseconds.

    Moving a deadline back, as every heartbeat does, touches a dict only: the stale heap entry is
    found too early when it surfaces, and goes back with the right time.
    """

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._queued: dict[Hashable, int] = {}
        self._serial = count()

    def schedule(self, key: Hashable, due_ms: int) -> None:
        """Set or move the deadline of `key`."""
        self._due[key] = due_ms
        queued = self._queued.get(key)
        if queued is None or due_ms < queued:
            self._push(key, due_ms)

    def cancel(self, key: Hashable) -> None:
        """Forget `key`, if it is known."""
        self._due.pop(key, None)

    def deadline(self) -> int | None:
        """A time no later than the earliest deadline; None when nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Iterator[Hashable]:
        """Remove and give the keys that are due, earliest first.

        What is scheduled meanwhile is left for the next call, unless it is due already.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(heap)
            if self._queued.get(key) != queued_ms:
                continue
            del self._queued[key]
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms > now_ms:
                self._push(key, due_ms)
                continue
            del self._due[key]
            yield key

    def __contains__(self, key: Hashable) -> bool:
        return key in self._due

    def _push(self, key: Hashable, due_ms: int) -> None:
        self._queued[key] = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._serial), key))
