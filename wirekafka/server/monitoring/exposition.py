"""Collects all metrics on the event loop, a millisecond at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from wirekafka.server.monitoring.collector import Collector

_TURN_NS = 1_000_000
"""After this long the event loop serves requests before the scrape goes on."""


class Exposition:
    """The text of all metrics. Scrapes take turns, because the tables are shared."""

    def __init__(self) -> None:
        self.collectors: Sequence[Collector] = ()
        self._turn = asyncio.Lock()

    async def text(self, *, openmetrics: bool) -> list[str]:
        """Collect and render; returns the text in parts, without the end marker of OpenMetrics."""
        async with self._turn:
            parts: list[str] = []
            began_ns = time.perf_counter_ns()
            for collector in self.collectors:
                for _ in collector.collect():
                    began_ns = await _pause_after(began_ns)
                for table in collector.tables:
                    for text in table.texts(openmetrics=openmetrics):
                        parts.append(text)
                        began_ns = await _pause_after(began_ns)
            return parts


async def _pause_after(began_ns: int) -> int:
    """Let the event loop do other work if the turn is over; returns when the turn began."""
    now_ns = time.perf_counter_ns()
    if now_ns - began_ns < _TURN_NS:
        return began_ns
    await asyncio.sleep(0)
    return time.perf_counter_ns()
