"""The real clock: the system time, and timers of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class LoopClock:
    """A `Clock` on a running asyncio loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop

    work_ns = staticmethod(time.perf_counter_ns)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)
