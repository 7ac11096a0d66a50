"""A timer on the event loop that measures its delays and its idle time."""

from __future__ import annotations

import asyncio
import time

from wirekafka.metrics.measures import Measures

_EVERY_S = 0.1
_IDLE_EVERY = 50
"""The idle share is computed over five seconds."""
_ROTATE_EVERY = 600
"""Histograms cover five windows of a minute."""


class Pulse:
    """Beats ten times a second; `last_s` lets other threads see whether the loop still runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, measures: Measures):
        self._loop = loop
        self._measures = measures
        self._timer: asyncio.TimerHandle | None = None
        self._beats = 0
        self._cpu_s = self._wall_s = 0.0
        self.last_s = time.monotonic()
        """When the loop has last run this, by `time.monotonic`."""

    def start(self) -> None:
        """Begin; call it on the thread of the event loop."""
        self._cpu_s = time.thread_time()
        self._wall_s = time.monotonic()
        self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        due_s = self._loop.time() + _EVERY_S
        self._timer = self._loop.call_at(due_s, self._beat, due_s)

    def _beat(self, due_s: float) -> None:
        self.last_s = time.monotonic()
        self._measures.stalls.record(int(max(self._loop.time() - due_s, 0.0) * 1e6))
        self._beats += 1
        if self._beats % _IDLE_EVERY == 0:
            cpu_s = time.thread_time()
            wall_s = self.last_s
            busy = (cpu_s - self._cpu_s) / max(wall_s - self._wall_s, 1e-9)
            self._measures.idle = min(max(1.0 - busy, 0.0), 1.0)
            self._cpu_s, self._wall_s = cpu_s, wall_s
        if self._beats % _ROTATE_EVERY == 0:
            self._measures.rotate()
        self._schedule()
