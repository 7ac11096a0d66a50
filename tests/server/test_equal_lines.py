"""Equal warnings in the log: the first at once, then their number."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from wirekafka.server import equal_lines
from wirekafka.server.equal_lines import EqualLines


class Log:
    """A logger with the filter, under a clock of the test."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now_s = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []
        handler = logging.Handler()
        handler.emit = lambda record: self.lines.append(record.getMessage())  # type: ignore[method-assign]
        handler.addFilter(EqualLines(handler, lambda: self.now_s, self._later))
        self.logger = logging.Logger("test")
        self.logger.addHandler(handler)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._due.append((self.now_s + delay_s, call))

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due = [call for at_s, call in self._due if at_s <= self.now_s]
        self._due = [(at_s, call) for at_s, call in self._due if at_s > self.now_s]
        for call in due:
            call()

    def taken(self) -> list[str]:
        lines, self.lines[:] = self.lines[:], []
        return lines


def test_of_76_equal_warnings_the_first_is_logged_and_the_others_are_counted() -> None:
    log = Log()
    for number in range(76):
        log.logger.warning("%s is slow", "disk")
        log.now_s = number / 4
    assert log.taken() == ["disk is slow"]
    log.advance(60)
    assert log.taken() == ["75 more within 60 s: disk is slow"]
    log.logger.warning("%s is slow", "disk")
    assert log.taken() == ["disk is slow"]


def test_what_goes_on_is_counted_in_each_interval() -> None:
    log = Log()
    for _ in range(300):
        log.logger.error("failed")
        log.advance(1)
    log.advance(60)
    assert log.taken() == ["failed", "59 more within 60 s: failed"] * 5


def test_different_lines_levels_and_information_are_not_suppressed() -> None:
    log = Log()
    for _ in range(2):
        log.logger.info("same")
    for index in range(3):
        log.logger.warning("t-%d is offline", index)
    log.logger.error("t-0 is offline")
    assert log.taken() == [
        "same",
        "same",
        "t-0 is offline",
        "t-1 is offline",
        "t-2 is offline",
        "t-0 is offline",
    ]


def test_memory_is_bounded_however_many_different_lines_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equal_lines, "_MOST", 2)
    log = Log()
    for _ in range(2):
        for index in range(4):
            log.logger.warning("line %d", index)
    assert log.taken() == ["line 0", "line 1", "line 2", "line 3", "line 2", "line 3"]
