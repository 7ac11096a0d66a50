"""The clock a test holds: it goes as the machine's does until it is frozen or moved on."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count

_SLICES = 100


class VirtualTimer:
    """A pending call, due at a time of the virtual clock."""

    __slots__ = ("callback", "due_ms")

    def __init__(self, due_ms: float, callback: Callable[[], None]):
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A `Clock` for a broker on a loop; all of it is called from that loop.

    It outlives a crash of the broker, whose timers `forget` drops.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._ahead_ms = 0.0
        self._standing_ms: float | None = None
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._serial = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due_ms = 0.0

    def now_ms(self) -> int:
        return int(self._now_ms())

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(self._now_ms() + delay_ms, callback)
        heapq.heappush(self._timers, (timer.due_ms, next(self._serial), timer))
        self._arm()
        return timer

    @property
    def is_frozen(self) -> bool:
        return self._standing_ms is not None

    def freeze(self, at_ms: float | None = None) -> None:
        """Stand still, now or at a time in ms since the epoch."""
        now_ms = self._now_ms()
        self._standing_ms = now_ms if at_ms is None else at_ms
        self._put_off(self._standing_ms - now_ms)

    def thaw(self) -> None:
        """Go on from where it stands."""
        if self._standing_ms is not None:
            self._ahead_ms = self._standing_ms - _machine_ms()
            self._standing_ms = None
            self._arm()

    def reset(self) -> None:
        """Tell the machine's time again."""
        now_ms = self._now_ms()
        self._standing_ms = None
        self._ahead_ms = 0.0
        self._put_off(self._now_ms() - now_ms)

    async def advance(self, delta_ms: float) -> None:
        """Move on, making every call that falls due on the way.

        It goes in a hundred steps, between which requests go on: a timer set by another is
        called in its turn, at most a hundredth of the way late.
        """
        was_frozen = self.is_frozen
        start_ms = self._now_ms()
        self._standing_ms = start_ms
        for step in range(1, _SLICES + 1):
            self._fire(start_ms + delta_ms * step / _SLICES)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not was_frozen:
            self.thaw()

    def forget(self) -> None:
        """Drop every pending call."""
        self._timers.clear()
        self._disarm()

    def _put_off(self, delta_ms: float) -> None:
        """The clock was set: what was due in a second still is."""
        if delta_ms:
            for _, _, timer in self._timers:
                timer.due_ms += delta_ms
            self._timers = [(timer.due_ms, serial, timer) for _, serial, timer in self._timers]
        self._disarm()
        self._arm()

    def _now_ms(self) -> float:
        if self._standing_ms is not None:
            return self._standing_ms
        return _machine_ms() + self._ahead_ms

    def _fire(self, until_ms: float) -> None:
        """Make the calls due by then that are pending now, each at its time."""
        due = []
        while self._timers and self._timers[0][0] <= until_ms:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is None:
                continue
            if self._standing_ms is not None:
                self._standing_ms = max(self._standing_ms, timer.due_ms)
            try:
                callback()
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": f"{callback!r} failed", "exception": error})
        if self._standing_ms is not None:
            self._standing_ms = max(self._standing_ms, until_ms)

    def _arm(self) -> None:
        """Have the loop call when the first timer is due."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return
        due_ms = self._timers[0][0]
        if self._standing_ms is not None and due_ms > self._standing_ms:
            return  # Time stands still: only what is due already is called.
        if self._alarm is not None:
            if self._alarm_due_ms <= due_ms:
                return
            self._disarm()
        self._alarm_due_ms = due_ms
        self._alarm = self._loop.call_later(max(due_ms - self._now_ms(), 0) / 1000, self._ring)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        if self._standing_ms is None:
            self._fire(self._now_ms())
        else:
            self._fire(self._standing_ms)
        self._arm()


class LongPollClock:
    """The virtual time, and the machine's timers: a fetch that waits is not made to wait longer
    by a clock that stands still."""

    def __init__(self, clock: VirtualClock, loop: asyncio.AbstractEventLoop):
        self.now_ms = clock.now_ms
        self._loop = loop

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)


def _machine_ms() -> float:
    return time.time_ns() / 1_000_000
