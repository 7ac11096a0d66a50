"""Repeated warnings: the first is logged, the others are counted and reported later."""

from __future__ import annotations

import logging

import pytest

from wirekafka.server.connections.repeated_warnings import INTERVAL_MS, Occasion, RepeatedWarnings


@pytest.fixture
def warnings() -> RepeatedWarnings:
    return RepeatedWarnings()


def warn(
    warnings: RepeatedWarnings, host: str = "/10.0.0.1", kind: str = "a bad size", now_ms: int = 0
) -> None:
    warnings.log(logging.WARNING, Occasion(host, kind, now_ms), f"{host}: {kind} at {now_ms}")


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_only_the_first_of_a_kind_is_logged(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    for now_ms in range(1000):
        warn(warnings, now_ms=now_ms)
    assert messages(caplog) == ["/10.0.0.1: a bad size at 0"]


def test_other_kinds_and_hosts_are_logged(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    for host in ("/10.0.0.1", "/10.0.0.2"):
        for kind in ("a bad size", "a slow request"):
            warn(warnings, host, kind)
    assert len(messages(caplog)) == 4


def test_suppressed_warnings_are_reported_once(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    for now_ms in range(5):
        warn(warnings, now_ms=now_ms)
    warnings.sweep(INTERVAL_MS - 1)
    assert len(messages(caplog)) == 1
    warnings.sweep(INTERVAL_MS)
    warnings.sweep(INTERVAL_MS)
    assert messages(caplog)[1:] == ["4 more like this about /10.0.0.1, not logged: a bad size"]
    warn(warnings, now_ms=INTERVAL_MS)
    assert len(messages(caplog)) == 3


def test_the_next_warning_after_the_interval_is_logged_behind_the_count(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    for now_ms in (0, 1, INTERVAL_MS):
        warn(warnings, now_ms=now_ms)
    assert messages(caplog)[1:] == [
        "1 more like this about /10.0.0.1, not logged: a bad size",
        f"/10.0.0.1: a bad size at {INTERVAL_MS}",
    ]


def test_a_single_warning_is_not_reported_again(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    warn(warnings)
    warnings.sweep(INTERVAL_MS)
    assert len(messages(caplog)) == 1


def test_a_clock_that_is_set_back_does_not_suppress_warnings(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    warn(warnings, now_ms=10 * INTERVAL_MS)
    warn(warnings, now_ms=0)
    assert len(messages(caplog)) == 2


def test_many_hosts_neither_fill_the_memory_nor_the_log(
    warnings: RepeatedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20_000):
        warn(warnings, f"/2001:db8::{number:x}")
    assert len(messages(caplog)) == 1001
    assert len(warnings._seen) == 1001
    warnings.sweep(INTERVAL_MS)
    assert messages(caplog)[-1] == (
        "18999 more like this about other hosts, not logged: a bad size"
    )
    assert not warnings._seen
