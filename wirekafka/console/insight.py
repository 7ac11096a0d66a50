"""The state of a wirekafka broker, collected on its event loop in short steps."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from wirekafka.console.render import now_ms
from wirekafka.console.source import (
    ApiErrors,
    GroupLag,
    Insight,
    Known,
    MirrorReport,
    Software,
    TopicRate,
    Unknown,
)
from wirekafka.console.topic_samples import TopicSamples
from wirekafka.errors import error_name
from wirekafka.metrics.lag import LagHistory
from wirekafka.metrics.measures import Measures
from wirekafka.server.monitoring.lag import GROUP, READER, LagTracker
from wirekafka.server.node import Node

T = TypeVar("T")

logger = logging.getLogger(__name__)

_NO_MIRROR = Unknown("This broker mirrors no other cluster: see `wirekafka serve --mirror`.")
_EVERY_S = LagHistory.EVERY_MS / 1000
_FRESH_S = 1.0
_COLLECT_S = 5.0
_STEP_S = 0.001
"""After this long the event loop serves requests before the collection goes on."""


class Counts(NamedTuple):
    """A topic's counts of written and read records and bytes since the broker's start."""

    records: int
    bytes_in: int
    bytes_out: int


class Inside:
    """The broker in whose process the console runs; asked from the console's threads."""

    def __init__(self, node: Node, measures: Measures, lag: LagTracker) -> None:
        """Call it on the node's event loop."""
        self._node, self._measures, self._lag = node, measures, lag
        self._loop = asyncio.get_running_loop()
        self._rates = TopicSamples()
        self._rates_now: dict[str, TopicRate] = {}
        self._last_counts: tuple[int, dict[str, Counts]] = (now_ms(), {})
        self._turn = threading.Lock()
        self._insight: Known[Insight] = Unknown("The broker has just started.")
        self._insight_s = self._mirror_s = 0.0
        self._mirror: Known[MirrorReport] = _NO_MIRROR
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="console-rates", daemon=True)
        self._thread.start()

    def insight(self) -> Known[Insight]:
        """The broker's state, at most a second old; Unknown while the broker is too busy."""
        with self._turn:
            if time.monotonic() - self._insight_s > _FRESH_S:
                try:
                    self._insight = self._on_loop(self._collect)
                except (TimeoutError, RuntimeError):
                    return Unknown("The broker is too busy to report on itself, or stops.")
                self._insight_s = time.monotonic()
            return self._insight

    def mirror(self) -> Known[MirrorReport]:
        """The broker's copies of another cluster's topics, at most a second old."""
        with self._turn:
            if time.monotonic() - self._mirror_s > _FRESH_S:
                try:
                    self._mirror = self._on_loop(self._collect_mirror)
                except (TimeoutError, RuntimeError):
                    return Unknown("The broker is too busy to report on itself, or stops.")
                self._mirror_s = time.monotonic()
            return self._mirror

    def close(self) -> None:
        """Stop to sample."""
        self._stop.set()

    def _sample(self) -> None:
        while not self._stop.is_set():
            try:
                self._note_rates(self._on_loop(self._tick))
            except (TimeoutError, RuntimeError):
                logger.debug("The broker is too busy to sample its topics, or stops")
            self._stop.wait(_EVERY_S)

    def _on_loop(self, collect: Callable[[], Coroutine[Any, Any, T]]) -> T:
        future = asyncio.run_coroutine_threadsafe(collect(), self._loop)
        try:
            return future.result(_COLLECT_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError from None

    def _note_rates(self, counts: dict[str, Counts]) -> None:
        at_ms = now_ms()
        earlier_ms, earlier = self._last_counts
        span_s = max(at_ms - earlier_ms, 1) / 1000
        found = {}
        for rate in self._rates.sample(at_ms, {name: c.records for name, c in counts.items()}):
            now = counts[rate.name]
            before = earlier.get(rate.name, Counts(0, 0, 0))
            found[rate.name] = rate._replace(
                bytes_in_per_s=max(now.bytes_in - before.bytes_in, 0) / span_s,
                bytes_out_per_s=max(now.bytes_out - before.bytes_out, 0) / span_s,
            )
        self._last_counts = at_ms, counts
        self._rates_now = found

    # On the broker's event loop.

    async def _tick(self) -> dict[str, Counts]:
        self._measures.requests.settle()
        return {
            name: Counts(traffic.messages_in, traffic.bytes_in, traffic.bytes_out)
            for name, traffic in self._measures.traffic.topics()
        }

    async def _collect(self) -> Insight:
        lags: dict[tuple[str, str], list[int]] = {}
        queries: set[str] = set()
        began_s = time.perf_counter()
        for row in self._lag.rows():
            if time.perf_counter() - began_s > _STEP_S:
                await asyncio.sleep(0)
                began_s = time.perf_counter()
            if row is None:
                continue
            total = lags.setdefault((row.kind, row.name), [0, 0, -1, row.idle_ms])
            total[0] += row.behind.lag
            total[1] += 1
            if row.behind.behind_ms is not None:
                total[2] = max(total[2], row.behind.behind_ms)
            total[3] = min(total[3], row.idle_ms)
            if row.is_query:
                queries.add(row.name)
        groups = {}
        readers = []
        for (kind, name), (lag, partitions, behind_ms, idle_ms) in lags.items():
            history = self._lag.histories.get((kind, name))
            found = GroupLag(
                name, kind, "", lag, None if behind_ms < 0 else behind_ms, partitions, history
            )
            if kind == GROUP:
                groups[name] = found
            elif kind == READER:
                readers.append(found._replace(idle_ms=idle_ms, is_query=name in queries))
        return Insight(
            self._node.broker.node_id,
            groups,
            readers,
            self._rates_now,
            self._errors(),
            self._software(),
            () if (space := self._node.space) is None else space.statuses(),
        )

    async def _collect_mirror(self) -> Known[MirrorReport]:
        mirroring = self._node.mirroring
        if mirroring is None:
            return _NO_MIRROR
        from wirekafka.server.mirroring.report import each_row, summary

        rows = []
        began_s = time.perf_counter()
        for row in each_row(mirroring):
            rows.append(row)
            if time.perf_counter() - began_s > _STEP_S:
                await asyncio.sleep(0)
                began_s = time.perf_counter()
        return MirrorReport(summary(mirroring), rows)

    def _errors(self) -> Sequence[ApiErrors]:
        return [
            ApiErrors(api.name, error_name(code), count)
            for api in list(self._measures.requests.apis.values())
            for code, count in sorted(api.errors.items())
            if code
        ]

    def _software(self) -> Sequence[Software]:
        connected = Counter(
            software for listener in self._node.listeners for software in listener.software()
        )
        totals = {software: [0, 0, 0] for software in connected}
        self._measures.requests.settle()
        for _, row in self._measures.requests.clients.rows():
            total = totals.setdefault(row.software, [0, 0, 0])
            total[0] += row.requests
            total[1] += row.bytes_in
            total[2] += row.bytes_out
        return [
            Software(*software, connected[software], *total) for software, total in totals.items()
        ]
