"""The figures of one run of a case: measured times and the broker's CPU and memory use."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.peers import Target

Metrics = dict[str, float]

RATE = "msg/s"
REQUEST_RATE = "requests/s"
MB_RATE = "MB/s"
CPU_PER_REQUEST = "broker CPU µs/request"
CPU_PER_MB = "broker CPU ms/MB"
P50 = "p50 ms"
P99 = "p99 ms"
P999 = "p99.9 ms"
ROUND_TRIP = "round trip "
"""The prefix of percentiles of Produce responses, as opposed to arrivals of records."""
RESIDENT = "resident MiB"
RATIO = "ratio"
TAIL_RATIO = "ratio of reading"
BARE_RATIO = "ratio of a bare file"
ADDED_RATIO = "ratio beyond a bare file"
START = "s to ready"
START_CPU = "CPU s to ready"
JOIN = "ms to first record"
JOINED = "ms from 100 joins to full assignment"
REBALANCED = "ms to rebalance after a member left"
HEARTBEAT_RATE = "heartbeats/CPU s"
NONE_IDLE = "p99 ms, none idle"
WITH_IDLE = "p99 against none idle"

SMALLER_IS_BETTER = frozenset(
    {
        CPU_PER_REQUEST,
        CPU_PER_MB,
        P50,
        P99,
        P999,
        RESIDENT,
        START,
        START_CPU,
        JOIN,
        JOINED,
        REBALANCED,
        NONE_IDLE,
        WITH_IDLE,
    }
)


class Meter:
    """Measures from its creation until `metrics` is called."""

    def __init__(self, target: Target):
        self._target = target
        self._cpu_s = target.cpu_s()
        self._start = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    def metrics(self, *, records: float = 0, requests: float = 0, size_bytes: float = 0) -> Metrics:
        """Rates, and what each request and each MB (1e6 bytes of records) cost the broker.

        What is 0 is left out: the count of requests is not always known.
        """
        elapsed_s = self.elapsed_s
        cpu_s = self._target.cpu_s() - self._cpu_s
        found: Metrics = {}
        if records:
            found[RATE] = records / elapsed_s
        if requests:
            found[REQUEST_RATE] = requests / elapsed_s
            found[CPU_PER_REQUEST] = cpu_s / requests * 1e6
        if size_bytes:
            found[MB_RATE] = size_bytes / 1e6 / elapsed_s
            found[CPU_PER_MB] = cpu_s * 1e3 / (size_bytes / 1e6)
        return found


def latencies(seconds: Sequence[float]) -> Metrics:
    """The percentiles of a run's latencies, in ms."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        name: ordered[min(last, int(last * share + 0.5))] * 1e3
        for name, share in ((P50, 0.5), (P99, 0.99), (P999, 0.999))
    }
