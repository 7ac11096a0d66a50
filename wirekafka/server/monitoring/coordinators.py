"""Metrics of the group coordinator, named as by Kafka's JMX beans: rebalances, offsets, shards."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import astuple

from wirekafka.broker import Broker
from wirekafka.metrics.exposition import GAUGE, Column, Table, single

_PREFIX = "kafka_server_group_coordinator_metrics"
_COUNTED = (
    ("group_completed_rebalance", "Classic groups: generations whose leader has assigned."),
    ("consumer_group_rebalance", "Consumer groups: new epochs, but for members that left."),
    ("share_group_rebalance", "Share groups: new epochs, but for members that left."),
    ("streams_group_rebalance", "Streams groups: new epochs, but for members that left."),
    ("offset_commit", "Committed offsets."),
    ("offset_deletion", "Offsets deleted by clients, but for those deleted with their group."),
    ("offset_expiration", "Offsets deleted because of their age."),
)
"""In the order of the fields of `GroupCounts`."""


class RecentRates:
    """Counters per second, over the last half minute of scrapes."""

    _WINDOW_MS = 30_000

    def __init__(self) -> None:
        self._seen: deque[tuple[int, tuple[int, ...]]] = deque()

    def of(self, counts: tuple[int, ...], now_ms: int) -> tuple[float, ...]:
        """The rates of counters that have these values now."""
        seen = self._seen
        if not seen or now_ms > seen[-1][0]:
            seen.append((now_ms, counts))
        while len(seen) > 2 and seen[1][0] <= now_ms - self._WINDOW_MS:
            seen.popleft()
        first_ms, first = seen[0]
        took_s = max(now_ms - first_ms, 1) / 1000
        return tuple((now - before) / took_s for now, before in zip(counts, first, strict=True))


class GroupCountCollector:
    """Rebalances, and offsets that were committed, deleted and expired."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._rates = RecentRates()
        self._table = Table(
            [],
            [
                Column(f"{_PREFIX}_{name}_{kind}", GAUGE, f"{text}{per}")
                for kind, per in (("count", ""), ("rate", " Per second, of late."))
                for name, text in _COUNTED
            ],
        )
        self._shards = single(
            f"{_PREFIX}_num_partitions",
            GAUGE,
            "Partitions of the topic of groups that this broker leads, by state.",
            "state",
        )
        self.tables = (self._table, self._shards)

    def collect(self) -> Iterator[None]:
        groups = self._broker.groups
        counts: tuple[int, ...] = astuple(groups.counts)
        rates = self._rates.of(counts, self._broker.clock.now_ms())
        self._table.fill([((), (*counts, *rates))])
        led = groups.led
        loaded = len(groups.machines())
        states = {"active": loaded, "loading": led - loaded}
        self._shards.fill(((state,), (count,)) for state, count in states.items())
        yield
