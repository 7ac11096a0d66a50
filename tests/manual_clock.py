"""A clock that moves only when a test advances it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class ManualTimer:
    def __init__(self, callback: Callable[[], None]):
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    def __init__(self, start_ms: int = 1_700_000_000_000):
        self._now_ms = start_ms
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._serial = count()

    def now_ms(self) -> int:
        return self._now_ms

    def work_ns(self) -> int:
        return self._now_ms * 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (self._now_ms + max(delay_ms, 0), next(self._serial), timer))
        return timer

    def advance(self, ms: int) -> None:
        """Move time forward, firing due timers in order."""
        until = self._now_ms + ms
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, int(due))
            if timer.callback is not None:
                timer.callback()
        self._now_ms = max(self._now_ms, until)

    def sleep(self, ms: int) -> None:
        """Move time forward without firing timers; those that are due fire late at `advance`."""
        self._now_ms += ms
