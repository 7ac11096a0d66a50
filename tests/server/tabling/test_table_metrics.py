"""The metrics of tables: lag in records and seconds, commits, states, and the worker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.server.tabling.stand import Stand, report_of, run
from tests.server.test_metrics_document import NAMED
from wirekafka.server.monitoring.tables import TableCollector

_PREFIX = "wirekafka_table_"


def _samples(stand: Stand) -> dict[str, float]:
    """The value of each sample, by its name without the common prefix, and its labels."""
    collector = TableCollector(stand.tabling)
    for _ in collector.collect():
        pass
    lines = [
        line
        for table in collector.tables
        for text in table.texts(openmetrics=False)
        for line in text.splitlines()
        if line and not line.startswith("#")
    ]
    return {
        name.removeprefix(_PREFIX): float(value)
        for name, _, value in (line.rpartition(" ") for line in lines)
    }


def test_lag_and_state_follow_the_log_and_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders", 2)
        stand.append("orders", 3)
        await stand.until(lambda: stand.last)
        samples = _samples(stand)
        assert samples['lag_records{topic="orders"}'] == 3
        assert samples['state{topic="orders",state="starting"}'] == 1
        assert 'last_commit_timestamp_seconds{topic="orders"}' not in samples
        report = report_of("orders", id, {0: 3, 1: 0}, rows=2, dead_letters=1)
        stand.worker.report(report)
        await stand.until(lambda: _samples(stand)['lag_records{topic="orders"}'] == 0)
        samples = _samples(stand)
        assert samples == {
            'lag_records{topic="orders"}': 0,
            'lag_seconds{topic="orders"}': 0,
            'last_commit_timestamp_seconds{topic="orders"}': 1_700_000_000,
            'rows_total{topic="orders"}': 2,
            'dead_letters_total{topic="orders"}': 1,
            'state{topic="orders",state="starting"}': 0,
            'state{topic="orders",state="running"}': 1,
            'state{topic="orders",state="retrying"}': 0,
            'state{topic="orders",state="paused"}': 0,
            "worker_up": 1,
            "worker_failures_total": 0,
        }

    run(tmp_path, monkeypatch, test)


def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_the_table_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        def lag_s() -> float:
            return _samples(stand)['lag_seconds{topic="orders"}']

        id = stand.create("orders")
        stand.worker.report(report_of("orders", id, {0: 0}))
        await stand.until(lambda: stand.tabling.reports)
        stand.clock.advance(60_000)
        stand.append("orders")
        assert lag_s() <= 1
        stand.clock.advance(5_000)
        stand.append("orders")
        stand.clock.advance(3_000)
        assert 7 <= lag_s() <= 8
        stand.worker.report(report_of("orders", id, {0: 1}))
        await stand.until(lambda: stand.tabling.reports["orders"].ends == {0: 1}, every_ms=0)
        assert 2 <= lag_s() <= 4
        await stand.until(lambda: lag_s() > 100, every_ms=10_000)

    run(tmp_path, monkeypatch, test)


def test_every_metric_of_tables_is_in_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        collector = TableCollector(stand.tabling)
        names = {column.name for table in collector.tables for column in table.columns}
        assert names == {name for name in NAMED if re.match(_PREFIX, name)}

    run(tmp_path, monkeypatch, test)
