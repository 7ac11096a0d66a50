"""Deadlines that are moved often and seldom reached: one heap with lazy deletion."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count


class Timers:
    """At most one deadline per key, in milliseconds.

    Postponing a deadline, as every heartbeat does, changes only a dict: when the outdated heap
    entry reaches the top, it is pushed again with the right time.
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
        """Remove the deadline of `key`, if there is one."""
        self._due.pop(key, None)

    def deadline(self) -> int | None:
        """A time no later than the earliest deadline; None when nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def next_due(self, now_ms: int) -> Hashable | None:
        """The key with the earliest deadline, None before that deadline; the key stays
        scheduled."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, key = heap[0]
            due_ms = self._due.get(key)
            is_current = self._queued.get(key) == queued_ms
            if is_current and due_ms is not None and due_ms <= now_ms:
                return key
            heapq.heappop(heap)
            if not is_current:
                continue
            del self._queued[key]
            if due_ms is not None:
                self._push(key, due_ms)
        return None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._due

    def _push(self, key: Hashable, due_ms: int) -> None:
        self._queued[key] = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._serial), key))
