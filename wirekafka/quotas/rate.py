"""The rate of something over the last windows of time, and the throttle time for exceeding it.

A request that exceeds a limit is not refused: its client is made to wait until the rate, by then
over a longer time, equals the limit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LONGEST_MS = (1 << 31) - 1
"""The longest throttle time that a response can report."""


class Windows(NamedTuple):
    """The windows that a rate is averaged over: how many, and the length of each."""

    number: int
    size_ms: int


class _Window:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, now_ms: int):
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.amount = 0.0


class Rate:
    """The use per second of a client, or of clients that share a quota, against a limit.

    As in Kafka, a window begins with the first record after the end of the previous window, and is
    dropped `number` window lengths after its last record. The rate is averaged over the time since
    the oldest window began, but over at least `number - 1` whole windows.
    """

    __slots__ = (
        "__weakref__",
        "_at",
        "_current",
        "_harmless",
        "_limit",
        "_longest_ms",
        "_margin",
        "_total",
        "_windows",
        "ample",
        "ample_until_ms",
        "pending",
        "pending_ms",
        "room",
        "stable_until_ms",
        "throttled_until_ms",
        "windows",
    )

    def __init__(
        self, windows: Windows, limit: float, longest_ms: int = LONGEST_MS, margin: float = math.inf
    ):
        """`longest_ms` bounds throttle times; `ample_until_ms` promises room for `margin`."""
        self.windows = windows
        self._longest_ms = longest_ms
        self._margin = margin
        self._windows: list[_Window] = []
        """In the order of their use: the window after `_at`, cyclically, is the next to be
        reused."""
        self._at = -1
        self._current = _Window(0)
        self._total = 0.0
        self.stable_until_ms = -1
        """Until then no window ends or is dropped."""
        self.room = 0.0
        """While `pending` is no more, the limit is not exceeded before `stable_until_ms`."""
        self.ample_until_ms = 0
        """Until this time in ms there is room for `margin` more, which may be added to `pending`
        afterwards. A caller that raises `pending` above `ample` sets this to 0."""
        self.ample = 0.0
        self.pending = 0.0
        """The use of callers within `room` since the last call of `record`."""
        self.pending_ms = 0
        """When something was last added to `pending`."""
        self.throttled_until_ms = 0
        """The end of the latest throttle time."""
        self.limit = limit

    @property
    def limit(self) -> float:
        """The most per second."""
        return self._limit

    @limit.setter
    def limit(self, limit: float) -> None:
        self._limit = limit
        self._harmless = self.burst
        self._settle()

    @property
    def burst(self) -> float:
        """The most use at once that never exceeds the limit, at any time within the windows."""
        number, size_ms = self.windows
        return self._limit * (number - 1) * size_ms / 1000

    def add(self, amount: float, now_ms: int) -> int:
        """Count an amount as `record` does, but at a lower cost if there is much room."""
        pending = self.pending + amount
        if pending <= self.room and now_ms < self.stable_until_ms:
            self.pending = pending
            self.pending_ms = now_ms
            return 0
        return self.record(amount, now_ms)

    def record(self, amount: float, now_ms: int) -> int:
        """Count an amount; returns the throttle time in ms, 0 within the limit."""
        if self.pending:
            self._settle()
        if now_ms >= self.stable_until_ms:
            self._turn(now_ms)
        current = self._current
        current.amount += amount
        current.last_ms = now_ms
        self._total += amount
        self._make_room()
        if self.room >= 0:
            return 0
        return self._throttle_ms(now_ms)

    def take_back(self, amount: float, now_ms: int) -> None:
        """Uncount an amount that was recorded."""
        self.record(-amount, now_ms)

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        self._settle()
        if now_ms >= self.stable_until_ms:
            self._drop_old(now_ms)
        return self._total * 1000 / self._elapsed_ms(now_ms)

    def _settle(self) -> None:
        """Count the pending use in the current window."""
        current = self._current
        current.amount += self.pending
        current.last_ms = max(current.last_ms, self.pending_ms)
        self._total += self.pending
        self.pending = 0.0
        self._make_room()

    def _make_room(self) -> None:
        self.room = self._harmless - self._total
        self.ample = self.room - self._margin
        self.ample_until_ms = self.stable_until_ms if self.ample >= 0 else 0

    def _throttle_ms(self, now_ms: int) -> int:
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = self._total * 1000 / elapsed_ms
        if rate <= self._limit:
            return 0
        if not self._limit:
            throttle_ms = self._longest_ms
        else:
            excess = (rate - self._limit) / self._limit
            throttle_ms = min(math.floor(excess * elapsed_ms + 0.5), self._longest_ms)
        self.throttled_until_ms = now_ms + throttle_ms
        return throttle_ms

    def _elapsed_ms(self, now_ms: int) -> int:
        """The time that the rate is averaged over."""
        number, size_ms = self.windows
        elapsed_ms = now_ms - min((each.start_ms for each in self._windows), default=now_ms)
        missing = number - 1 - int(elapsed_ms / size_ms)
        return max(elapsed_ms + max(missing, 0) * size_ms, 1)

    def _turn(self, now_ms: int) -> None:
        """Begin a window if the current one has ended, and drop old ones."""
        windows = self._windows
        if not windows or now_ms - self._current.start_ms >= self.windows.size_ms:
            # One more than are counted: the oldest may overlap the time that is averaged over.
            self._at = (self._at + 1) % (self.windows.number + 1)
            if self._at == len(windows):
                windows.append(_Window(now_ms))
            else:
                windows[self._at].restart(now_ms)
            self._current = windows[self._at]
        self._drop_old(now_ms)

    def _drop_old(self, now_ms: int) -> None:
        kept_ms = self.windows.number * self.windows.size_ms
        self._total = 0.0
        oldest_ms = now_ms
        for each in self._windows:
            if now_ms - each.last_ms >= kept_ms:
                each.restart(now_ms)
            self._total += each.amount
            oldest_ms = min(oldest_ms, each.last_ms)
        self.stable_until_ms = min(
            self._current.start_ms + self.windows.size_ms, oldest_ms + kept_ms
        )
