"""Collects metrics on the event loop, a millisecond at a time; during a start, on any thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from wirekafka.metrics.exposition import Table

_TURN_NS = 1_000_000
"""After this long the event loop serves requests before the scrape goes on."""


class Collector(Protocol):
    """Reads one part of a node at each scrape; nothing is kept up to date in between."""

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that the collector fills."""

    def collect(self) -> Iterator[None]:
        """Fill the tables in steps of at most a millisecond: requests are served in between."""


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


class EarlyExposition:
    """The text of the metrics that any thread may collect, while the event loop is blocked."""

    def __init__(self, collectors: Sequence[Collector]):
        self._collectors = collectors
        self._turn = threading.Lock()

    def text(self, *, openmetrics: bool) -> list[str]:
        """Collect and render at once."""
        parts: list[str] = []
        with self._turn:
            for collector in self._collectors:
                for _ in collector.collect():
                    pass
                for table in collector.tables:
                    parts.extend(table.texts(openmetrics=openmetrics))
        return parts


async def _pause_after(began_ns: int) -> int:
    """Let the event loop do other work if the turn is over; returns when the turn began."""
    now_ns = time.perf_counter_ns()
    if now_ns - began_ns < _TURN_NS:
        return began_ns
    await asyncio.sleep(0)
    return time.perf_counter_ns()
