"""The table of benchmark cases: workload, client and goal of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

from benchmarks import clients, encrypted, groups, raw, sharing, starting
from benchmarks.driver import ALL, Load
from benchmarks.measure import (
    CPU_PER_MB,
    CPU_PER_REQUEST,
    HEARTBEAT_RATE,
    JOINED,
    MB_RATE,
    P50,
    P99,
    RATE,
    RATIO,
    REBALANCED,
    REQUEST_RATE,
    RESIDENT,
    START,
    WITH_IDLE,
    Metrics,
)
from benchmarks.peers import Security, Target

Measure = Callable[[Target, float], Metrics]


class Suite(IntEnum):
    """The length of a run, which includes the cases of all shorter suites."""

    QUICK = 0
    USUAL = 1
    FULL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Bounds of one figure of wirekafka, or of its ratio to the other broker's."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    times_at_least: float | None = None
    times_at_most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: `measure` runs for about a number of seconds against a warm broker."""

    name: str
    measure: Measure
    goals: tuple[Goal, ...] = ()
    suite: Suite = Suite.USUAL
    is_fresh: bool = False
    """A new broker for every run, not only for every case; then there is no warm-up."""
    security: Security = Security.NONE
    """Of a further listener of the brokers, at `Target.secured`."""
    most_turns: int | None = None
    """Each broker's, where a run takes long by its nature and nobody asked for so many."""
    most_warm_ups: int = 6
    least_s: float = 0.0
    """Of a run, where a rare figure is wanted."""
    chart: str | None = None
    """The figure that goes into the plot."""


def _librdkafka(settings: dict[str, Any], record_bytes: int = 200, per_request: int = 0) -> Measure:
    return partial(
        clients.produce, settings=settings, record_bytes=record_bytes, per_request=per_request
    )


def _raw(**load: int) -> Measure:
    return partial(raw.produce, load=Load(**load))


# A short queue, so that little is left to flush at the end.
_UNBATCHED = {"batch.num.messages": 1, "queue.buffering.max.messages": 5000}
_BATCHED = {"linger.ms": 5}
_CODECS = ("gzip", "snappy", "lz4", "zstd")

STARTING = (
    Case(
        name="start",
        measure=starting.started,
        is_fresh=True,
        suite=Suite.QUICK,
        chart=START,
        goals=(
            Goal(metric=START, at_most=0.3, times_at_most=1 / 8),
            Goal(metric=RESIDENT, at_most=60),
        ),
    ),
    Case(
        name="start with 2,000 partitions",
        chart=START,
        most_turns=3,
        most_warm_ups=1,
        measure=partial(starting.restarted, partitions=2000),
        goals=(Goal(metric=START, at_most=2),),
    ),
    Case(
        name="memory after a mixed run",
        measure=clients.mixed,
        suite=Suite.QUICK,
        chart=RESIDENT,
        most_turns=3,
        most_warm_ups=0,
        goals=(Goal(metric=RESIDENT, at_most=120),),
    ),
)

PRODUCING = (
    Case(
        name="produce unbatched, librdkafka",
        suite=Suite.QUICK,
        chart=RATE,
        measure=_librdkafka(_UNBATCHED, per_request=1),
        goals=(
            Goal(metric=RATE, times_at_least=4),
            Goal(metric=CPU_PER_REQUEST, at_most=12, times_at_most=0.25),
        ),
    ),
    Case(name="produce unbatched, raw 1 × 1", measure=_raw(connections=1, depth=1), chart=RATE),
    Case(
        name="produce unbatched, raw 4 × 10",
        measure=_raw(connections=4, depth=10),
        suite=Suite.QUICK,
        chart=RATE,
    ),
    Case(name="produce unbatched, raw 50 × 1", measure=_raw(connections=50, depth=1), chart=RATE),
    Case(
        name="produce batches of 50, librdkafka",
        suite=Suite.QUICK,
        chart=RATE,
        measure=_librdkafka({"batch.num.messages": 50, "linger.ms": 5}, per_request=50),
        goals=(
            Goal(metric=RATE, times_at_least=1.5),
            Goal(metric=CPU_PER_REQUEST, times_at_most=0.3),
        ),
    ),
    Case(
        name="produce batches of 50, raw 4 × 4",
        chart=RATE,
        measure=_raw(connections=4, depth=4, records=50),
    ),
    Case(
        name="produce batched 200 B, librdkafka",
        suite=Suite.QUICK,
        chart=RATE,
        measure=_librdkafka(_BATCHED),
        goals=(Goal(metric=RATE, times_at_least=1.0), Goal(metric=CPU_PER_MB, times_at_most=0.9)),
    ),
    Case(
        name="produce idempotent, acks=all, librdkafka",
        suite=Suite.QUICK,
        chart=RATE,
        measure=_librdkafka({"enable.idempotence": True, "acks": "all", "linger.ms": 5}),
        goals=(Goal(metric=RATE, times_at_least=1.0), Goal(metric=CPU_PER_MB, times_at_most=0.9)),
    ),
    Case(
        name="produce 10 KB, acks=all, librdkafka",
        suite=Suite.QUICK,
        chart=MB_RATE,
        measure=_librdkafka({"acks": "all", "linger.ms": 5}, 10_000),
        goals=(
            Goal(metric=MB_RATE, times_at_least=1.1),
            Goal(metric=CPU_PER_MB, times_at_most=0.9),
        ),
    ),
    Case(
        name="produce 1 MB, acks=all, raw 2 × 2",
        chart=MB_RATE,
        measure=_raw(connections=2, depth=2, record_bytes=1_000_000, acks=ALL),
    ),
    *(
        Case(
            name=f"produce batched {codec}, librdkafka",
            chart=RATE,
            measure=_librdkafka(_BATCHED | {"compression.type": codec}),
        )
        for codec in _CODECS
    ),
    Case(
        name="produce unbatched, Java",
        chart=RATE,
        most_warm_ups=3,
        measure=partial(
            clients.java_producer, records_per_s=12_000, settings={"batch.size": 0, "acks": 1}
        ),
    ),
    Case(
        name="produce default, Java",
        chart=RATE,
        most_warm_ups=3,
        measure=partial(clients.java_producer, records_per_s=300_000, settings={}),
    ),
    Case(
        name="produce acks=0, one by one, librdkafka",
        chart=RATE,
        measure=partial(clients.produce_unacknowledged, per_request=1),
    ),
    Case(
        name="produce acks=0, batches of 50, librdkafka",
        chart=RATE,
        measure=partial(clients.produce_unacknowledged, per_request=50),
    ),
)

CONSUMING = (
    Case(
        name="consume, raw, 1 consumer",
        suite=Suite.QUICK,
        chart=MB_RATE,
        measure=partial(raw.consume, consumers=1),
        goals=(
            Goal(metric=MB_RATE, times_at_least=1.5),
            Goal(metric=CPU_PER_MB, times_at_most=0.6),
        ),
    ),
    Case(
        name="consume, raw, 10 consumers",
        chart=MB_RATE,
        measure=partial(raw.consume, consumers=10),
        goals=(
            Goal(metric=MB_RATE, times_at_least=1.5),
            Goal(metric=CPU_PER_MB, times_at_most=0.6),
        ),
    ),
    Case(
        name="consume, raw, 100 consumers",
        chart=MB_RATE,
        measure=partial(raw.consume, consumers=100),
    ),
    Case(name="consume tail, raw", chart=MB_RATE, measure=raw.consume_tail),
    Case(name="consume cold, raw", chart=MB_RATE, measure=raw.consume_cold),
    Case(name="consume, librdkafka", suite=Suite.QUICK, chart=RATE, measure=clients.consume),
    Case(name="consume, Java", chart=MB_RATE, most_warm_ups=2, measure=clients.java_consumer),
)

WAITING = (
    Case(
        name="round trip, raw, acks=all",
        suite=Suite.QUICK,
        chart=P50,
        measure=raw.round_trip,
        goals=(Goal(metric=P50, at_most=0.12), Goal(metric=P99, at_most=0.25)),
    ),
    Case(
        name="end to end, one at a time, librdkafka",
        suite=Suite.QUICK,
        chart=P50,
        measure=clients.ping,
        goals=(Goal(metric=P50, at_most=0.35), Goal(metric=P99, at_most=0.7)),
    ),
    # As many records as p99.9 needs.
    Case(
        name="end to end, 100 msg/s, raw",
        chart=P99,
        least_s=10,
        most_turns=3,
        most_warm_ups=3,
        measure=partial(raw.end_to_end, per_s=100),
    ),
    Case(
        name="end to end, 1,000 msg/s, raw",
        chart=P99,
        least_s=3,
        measure=partial(raw.end_to_end, per_s=1000),
    ),
    Case(
        name="end to end, 10,000 msg/s, raw",
        chart=P99,
        measure=partial(raw.end_to_end, per_s=10_000),
    ),
)

COORDINATING = (
    Case(name="join a group", measure=clients.join, chart="ms to first record"),
    Case(
        name="consumer group of 100 members",
        measure=groups.rebalances,
        chart=JOINED,
        goals=(Goal(metric=JOINED, times_at_most=1.0), Goal(metric=REBALANCED, times_at_most=1.0)),
    ),
    Case(
        name="consumer group of 100 members, assigned without pause",
        measure=partial(groups.rebalances, interval_ms=0),
        chart=JOINED,
    ),
    Case(
        name="heartbeats of 100 members",
        measure=groups.heartbeats,
        chart=HEARTBEAT_RATE,
        goals=(Goal(metric=HEARTBEAT_RATE, times_at_least=1.0),),
    ),
    Case(
        name="share group with explicit acknowledgement, raw 4 × 1",
        measure=sharing.consumption,
        chart=RATE,
        goals=(Goal(metric=RATE, times_at_least=1.0),),
    ),
    Case(name="offset commits, raw 4 × 5", measure=raw.offset_commits, chart="requests/s"),
    Case(
        name="transactions every 100 ms against none",
        suite=Suite.QUICK,
        chart=RATIO,
        measure=clients.transactions,
        goals=(Goal(metric=RATIO, at_least=0.97),),
    ),
    Case(
        name="transactions every 100 ms against none, Java",
        chart=RATIO,
        most_turns=3,
        most_warm_ups=1,
        measure=clients.java_transactions,
        goals=(Goal(metric=RATIO, at_least=0.97),),
    ),
)

SCALING = (
    Case(
        name="200,000 records over 1 fresh partition",
        chart=RATE,
        measure=partial(clients.partitions, count=1, records=200_000),
    ),
    Case(
        name="200,000 records over 100 fresh partitions",
        chart=RATE,
        measure=partial(clients.partitions, count=100, records=200_000),
    ),
    Case(
        name="200,000 records over 2,000 fresh partitions",
        chart=RATE,
        is_fresh=True,
        most_turns=3,
        measure=partial(clients.partitions, count=2000, records=200_000),
        goals=(Goal(metric=RATE, at_least=100_000), Goal(metric=RESIDENT, at_most=200)),
    ),
    Case(
        name="200,000 records over 9,999 fresh partitions",
        chart=RATE,
        is_fresh=True,
        suite=Suite.FULL,
        most_turns=3,
        measure=partial(clients.partitions, count=9_999, records=200_000),
    ),
    Case(name="1 connection", chart=P99, measure=partial(raw.connections, count=1)),
    Case(
        name="100 connections, all active", chart=P99, measure=partial(raw.connections, count=100)
    ),
    Case(
        name="100 active of 1,000 connections",
        chart=WITH_IDLE,
        measure=partial(raw.connections, count=1000),
    ),
    Case(
        name="100 active of 5,000 connections",
        chart=WITH_IDLE,
        measure=partial(raw.connections, count=5000),
        goals=(Goal(metric=WITH_IDLE, at_most=2),),
    ),
    Case(
        name="rates with 1 GB held against 200 MB",
        chart=RATIO,
        is_fresh=True,
        most_turns=3,
        measure=partial(raw.growing, megabytes=1000),
    ),
    Case(
        name="rates with 10 GB held against 200 MB",
        chart=RATIO,
        is_fresh=True,
        most_turns=3,
        suite=Suite.FULL,
        measure=partial(raw.growing, megabytes=10_000),
    ),
)

_TLS_GOALS = (Goal(metric=MB_RATE, times_at_least=1.0), Goal(metric=CPU_PER_MB, times_at_most=1.0))


def _encrypted(security: Security, medium: str) -> tuple[Case, ...]:
    """Producing and consuming through the listener of `security`."""
    return (
        Case(
            name=f"produce 10 KB over {medium}, librdkafka",
            security=security,
            chart=MB_RATE,
            measure=partial(
                encrypted.produce, settings={"acks": "all", "linger.ms": 5}, record_bytes=10_000
            ),
            goals=_TLS_GOALS,
        ),
        Case(
            name=f"produce unbatched over {medium}, librdkafka",
            security=security,
            chart=RATE,
            measure=partial(
                encrypted.produce, settings=_UNBATCHED, record_bytes=200, per_request=1
            ),
            goals=(
                Goal(metric=RATE, times_at_least=1.0),
                Goal(metric=CPU_PER_REQUEST, times_at_most=1.0),
            ),
        ),
        Case(
            name=f"consume over {medium}, librdkafka",
            security=security,
            chart=MB_RATE,
            measure=encrypted.consume,
            goals=_TLS_GOALS,
        ),
    )


ENCRYPTED = (
    *_encrypted(Security.TLS, "TLS"),
    *_encrypted(Security.ACLS, "SASL_SSL with ACLs"),
    Case(
        name="full TLS handshakes",
        security=Security.TLS,
        chart=REQUEST_RATE,
        measure=encrypted.handshakes,
        goals=(Goal(metric=REQUEST_RATE, times_at_least=1.0),),
    ),
)

CASES = (*STARTING, *PRODUCING, *CONSUMING, *WAITING, *COORDINATING, *SCALING, *ENCRYPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how often; what changes between the quick and the usual mode.

    `warm_up_s` is one warm-up's length; there are more while they bring much.
    """

    suite: Suite
    alternations: int
    seconds: float
    warm_up_s: float
    most_warm_ups: int = 6
    only: str = field(default="")

    def cases(self) -> list[Case]:
        """Those of the suite whose name has `only` in it."""
        return [case for case in CASES if case.suite <= self.suite and self.only in case.name]


PLANS = {
    Suite.QUICK: Plan(
        suite=Suite.QUICK, alternations=3, seconds=0.6, warm_up_s=1.0, most_warm_ups=3
    ),
    Suite.USUAL: Plan(suite=Suite.USUAL, alternations=5, seconds=1.5, warm_up_s=2.0),
    Suite.FULL: Plan(suite=Suite.FULL, alternations=7, seconds=4.0, warm_up_s=3.0),
}
