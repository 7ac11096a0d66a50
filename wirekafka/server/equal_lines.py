"""A filter of log handlers: equal warnings are logged once, and then counted for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

INTERVAL_S = 60.0
"""How long equal warnings are counted after one was logged."""
_MOST = 1000
"""How many different warnings are remembered; all further warnings are logged."""
_LONGEST = 1000
"""So many characters of a warning are remembered: names that clients choose may be long."""

_Key = tuple[str, int, str]
Later = Callable[[float, Callable[[], None]], None]
"""Calls a function, in any thread, after so many seconds."""


class EqualLines(logging.Filter):
    """Lets the first of equal warnings and errors pass, and logs the number of repetitions later.

    Lines that differ anywhere, in a partition for instance, all pass; long lines are compared by
    their beginning.
    """

    def __init__(
        self,
        handler: logging.Handler,
        now_s: Callable[[], float] = time.monotonic,
        later: Later | None = None,
    ):
        """`handler`, to which the filter is to be added, gets the lines with the numbers."""
        super().__init__()
        self._handler = handler
        self._now_s = now_s
        self._later = later or _in_thread
        self._lock = threading.Lock()
        self._seen: dict[_Key, _Seen] = {}
        self._will_sweep = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be logged now."""
        if record.levelno < logging.WARNING or isinstance(record, _Count):
            return True
        key = record.name, record.levelno, record.getMessage()[:_LONGEST]
        now_s = self._now_s()
        with self._lock:
            seen = self._seen.get(key)
            if seen is not None and now_s < seen.until_s:
                seen.suppressed += 1
                self._sweep_later()
                return False
            counts = self._expired(now_s)
            if len(self._seen) < _MOST:
                self._seen[key] = _Seen(now_s + INTERVAL_S)
        self._report(counts)
        return True

    def _sweep_later(self) -> None:
        if not self._will_sweep:
            self._will_sweep = True
            self._later(INTERVAL_S, self._sweep)

    def _sweep(self) -> None:
        with self._lock:
            self._will_sweep = False
            counts = self._expired(self._now_s())
            if any(seen.suppressed for seen in self._seen.values()):
                self._sweep_later()
        self._report(counts)

    def _expired(self, now_s: float) -> list[_Count]:
        """Forget the warnings whose interval is over; returns lines with their repetitions."""
        counts = []
        # In order of time: each was added when it was logged, and removed before the next time.
        while self._seen:
            key = next(iter(self._seen))
            if now_s < self._seen[key].until_s:
                break
            count = self._seen.pop(key).suppressed
            if count:
                counts.append(_Count(*key, count))
        return counts

    def _report(self, counts: list[_Count]) -> None:
        for line in counts:
            self._handler.handle(line)


class _Seen:
    __slots__ = ("suppressed", "until_s")

    def __init__(self, until_s: float):
        self.until_s = until_s
        self.suppressed = 0


class _Count(logging.LogRecord):
    """A line with the number of lines that were suppressed."""

    def __init__(self, name: str, level: int, message: str, count: int):
        text = f"{count} more within {INTERVAL_S:.0f} s: {message}"
        super().__init__(name, level, "", 0, text, None, None)


def _in_thread(delay_s: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(delay_s, call)
    timer.daemon = True
    timer.start()
