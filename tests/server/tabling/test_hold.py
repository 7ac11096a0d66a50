"""Retention of a topic waits for what the worker reports about its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.tabling.stand import Stand, report_of, run

_LARGE = {"of_log_retention_ms": "1", "of_log_internal_segment_bytes": "1200"}
"""A segment for each batch, which retention deletes at once."""


def _retained(stand: Stand) -> int:
    """The log start offset after retention."""
    log = stand.kafka.partition("orders").log
    log.delete_old_segments(stand.clock.now_ms())
    return log.start_offset


def test_retention_deletes_what_the_table_has_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders", hold="true", **_LARGE)
        stand.append("orders", 6)
        await stand.until(lambda: stand.last)
        assert _retained(stand) == 0, "nothing is known of the table"
        stand.worker.report(report_of("orders", "another", {0: 6}))
        await stand.until(lambda: stand.tabling.reports)
        stand.clock.advance(250)
        assert _retained(stand) == 0, "it was the table of another topic of this name"
        stand.worker.report(report_of("orders", id, {0: 4}))
        assert await stand.until(lambda: _retained(stand)) == 4
        stand.worker.report("exit 1")
        await stand.until(lambda: not stand.tabling.worker.is_running, every_ms=0)
        assert _retained(stand) == 4

    run(tmp_path, monkeypatch, test)


def test_a_restarted_broker_holds_everything_until_the_worker_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = []

    async def before(stand: Stand) -> None:
        ids.append(stand.create("orders", hold="true", **_LARGE))
        stand.append("orders", 3)
        stand.worker.report(report_of("orders", ids[0], {0: 1}))
        assert await stand.until(lambda: _retained(stand)) == 1
        stand.worker.report()

    async def after(stand: Stand) -> None:
        await stand.until(lambda: stand.last)
        assert _retained(stand) == 1
        stand.worker.report(report_of("orders", ids[0], {0: 2}))
        assert await stand.until(lambda: _retained(stand) == 2)

    run(tmp_path, monkeypatch, before)
    run(tmp_path, monkeypatch, after)


def test_a_paused_table_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders", hold="true", **_LARGE)
        stand.append("orders", 3)
        report = report_of("orders", id, {0: 2}, state="paused", error="it is of another log")
        stand.worker.report(report)
        await stand.until(lambda: stand.tabling.reports)
        stand.clock.advance(250)
        assert _retained(stand) == 0
        stand.worker.report({**report, "state": "retrying"})
        assert await stand.until(lambda: _retained(stand)) == 2

    run(tmp_path, monkeypatch, test)


def test_a_topic_that_does_not_hold_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders", **_LARGE)
        stand.append("orders", 3)
        await stand.until(lambda: stand.last)
        assert _retained(stand) == 3

    run(tmp_path, monkeypatch, test)


def test_a_table_that_is_written_anew_is_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders", hold="true", **_LARGE)
        stand.append("orders", 3)
        stand.worker.report(report_of("orders", id, {0: 2}))
        await stand.until(lambda: _retained(stand) == 2)
        stand.append("orders", 3)
        stand.worker.report(report_of("orders", id, {0: 0}))
        log = stand.kafka.partition("orders").log
        await stand.until(lambda: log.released_offset == 0)
        assert _retained(stand) == 2

    run(tmp_path, monkeypatch, test)
