"""The raw driver's cases, each for a short time, against a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import groups, raw
from benchmarks.driver import Load
from benchmarks.measure import (
    HEARTBEAT_RATE,
    JOINED,
    P50,
    RATE,
    REBALANCED,
    REQUEST_RATE,
    ROUND_TRIP,
)
from benchmarks.peers import Running, Target, Wirekafka
from tests.server.serving import Serving


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("benchmark")
    with (
        Serving(directory / "data") as serving,
        Running(f"x=127.0.0.1:{serving.port}").start(directory) as found,
    ):
        yield found


def test_records_are_produced_and_processor_time_is_measured(target: Target) -> None:
    metrics = raw.produce(target, 0.2, Load(connections=2, depth=3, records=5))
    assert metrics[RATE] == pytest.approx(5 * metrics[REQUEST_RATE])


def test_all_stored_records_are_consumed(target: Target) -> None:
    assert raw.consume(target, 0.3, consumers=3)[RATE] > 0


def test_each_record_arrives_once_at_a_waiting_consumer(target: Target) -> None:
    metrics = raw.end_to_end(target, 0.3, per_s=200)
    assert metrics[P50] > 0 and metrics[ROUND_TRIP + P50] > 0


def test_a_consumer_follows_a_producer(target: Target) -> None:
    assert raw.consume_tail(target, 0.3)[RATE] > 0


def test_offsets_are_committed(target: Target) -> None:
    assert raw.offset_commits(target, 0.2)[REQUEST_RATE] > 0


def test_a_group_joins_rebalances_and_sends_heartbeats(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MEMBERS", 5)
    monkeypatch.setattr(groups, "PARTITIONS", 20)
    metrics = groups.rebalances(target, 0.2)
    assert metrics[JOINED] > 0 and metrics[REBALANCED] > 0
    assert groups.heartbeats(target, 0.2)[HEARTBEAT_RATE] > 0


def test_a_fresh_brokers_start_time_and_memory_are_measured(tmp_path: Path) -> None:
    with Wirekafka().start(tmp_path) as fresh:
        assert fresh.start_s > 0 and fresh.resident_mib() > 1 and fresh.cpu_s() > 0
