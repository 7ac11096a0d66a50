"""The clock of a broker under test: the machine's time until a test freezes or advances it."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count

from wirekafka.clock import Clock

_SLICES = 100
_LATE_MS = 50.0


class VirtualTimer:
    """A pending callback, due at a time of the virtual clock."""

    __slots__ = ("callback", "due_ms", "owner")

    def __init__(self, due_ms: float, callback: Callable[[], None], owner: object = None):
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback
        self.owner = owner

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """The time of all nodes on one event loop, on which all methods must be called."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._ahead_ms = 0.0
        self._frozen_at_ms: float | None = None
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._paused: dict[object, list[VirtualTimer]] = {}
        """The timers that have fallen due since their owner was paused."""
        self._serial = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due_ms = 0.0

    def now_ms(self) -> int:
        return int(self._now_ms())

    def work_ns(self) -> int:
        return time.perf_counter_ns()

    def call_later(
        self, delay_ms: float, callback: Callable[[], None], owner: object = None
    ) -> VirtualTimer:
        """Call back when the time has moved on by `delay_ms`, unless `owner` is forgotten."""
        timer = VirtualTimer(self._now_ms() + delay_ms, callback, owner)
        heapq.heappush(self._timers, (timer.due_ms, next(self._serial), timer))
        self._arm()
        return timer

    @property
    def is_frozen(self) -> bool:
        return self._frozen_at_ms is not None

    def freeze(self, at_ms: float | None = None) -> None:
        """Stop the clock, now or at a time in ms since the epoch."""
        now_ms = self._now_ms()
        self._frozen_at_ms = now_ms if at_ms is None else at_ms
        self._shift_timers(self._frozen_at_ms - now_ms)

    def thaw(self) -> None:
        """Let a frozen clock continue from its present time."""
        if self._frozen_at_ms is not None:
            self._ahead_ms = self._frozen_at_ms - _machine_ms()
            self._frozen_at_ms = None
            self._arm()

    def reset(self) -> None:
        """Return to the machine's time; pending timers keep their remaining delay."""
        now_ms = self._now_ms()
        self._frozen_at_ms = None
        self._ahead_ms = 0.0
        self._shift_timers(self._now_ms() - now_ms)

    async def advance(self, delta_ms: float) -> None:
        """Move the clock forward and run every callback that falls due.

        The clock moves in a hundred steps, between which requests are served: a timer that another
        timer sets runs too, late by at most a hundredth of `delta_ms`.
        """
        was_frozen = self.is_frozen
        start_ms = self._now_ms()
        self._frozen_at_ms = start_ms
        for step in range(1, _SLICES + 1):
            self._fire(start_ms + delta_ms * step / _SLICES)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not was_frozen:
            self.thaw()

    def forget(self, owner: object = None) -> None:
        """Drop the pending callbacks of one owner; None is everybody."""
        for _, _, timer in self._timers:
            if owner in (None, timer.owner):
                timer.cancel()
        self._paused.pop(owner, None)
        if owner is None:
            self._timers.clear()
            self._paused.clear()
            self._disarm()

    def pause(self, owner: object) -> None:
        """Hold back the callbacks of one owner until `resume`."""
        self._paused.setdefault(owner, [])

    def resume(self, owner: object) -> None:
        """Run the callbacks that were held back, and no longer hold back any."""
        for timer in self._paused.pop(owner, ()):
            heapq.heappush(self._timers, (timer.due_ms, next(self._serial), timer))
        self._arm()

    def _shift_timers(self, delta_ms: float) -> None:
        """Shift all due times after the clock was set, so that remaining delays stay the same."""
        if delta_ms:
            for _, _, timer in self._timers:
                timer.due_ms += delta_ms
            self._timers = [(timer.due_ms, serial, timer) for _, serial, timer in self._timers]
        self._disarm()
        self._arm()

    def _now_ms(self) -> float:
        if self._frozen_at_ms is not None:
            return self._frozen_at_ms
        return _machine_ms() + self._ahead_ms

    def _fire(self, until_ms: float) -> None:
        """Run the callbacks that are pending now and due by `until_ms`, each at its due time."""
        due = []
        while self._timers and self._timers[0][0] <= until_ms:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            if timer.owner in self._paused:
                self._paused[timer.owner].append(timer)
                continue
            callback, timer.callback = timer.callback, None
            if callback is None:
                continue
            if self._frozen_at_ms is not None:
                self._frozen_at_ms = max(self._frozen_at_ms, timer.due_ms)
            try:
                callback()
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": f"{callback!r} failed", "exception": error}
                )
        if self._frozen_at_ms is not None:
            self._frozen_at_ms = max(self._frozen_at_ms, until_ms)

    def _arm(self) -> None:
        """Schedule a call of the event loop for the first due timer."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return
        due_ms = self._timers[0][0]
        if self._frozen_at_ms is not None and due_ms > self._frozen_at_ms:
            return  # While frozen, only timers that are due already run.
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
        if self._frozen_at_ms is None:
            self._fire(self._now_ms())
        else:
            self._fire(self._frozen_at_ms)
        self._arm()


class SteadyClock(VirtualClock):
    """The time by which the nodes of a cluster watch each other.

    Tests neither freeze nor advance it: no broker is fenced because a test lets a day pass. When
    the event loop stands still, as in a process on a busy machine, so does this clock: a node that
    could not run was not late.
    """

    def _ring(self) -> None:
        late_ms = self._now_ms() - self._alarm_due_ms
        if late_ms > _LATE_MS:
            self._ahead_ms -= late_ms
        super()._ring()


class NodeClock:
    """The `Clock` of one node: the time of all nodes, with timers that end with the node."""

    def __init__(self, time: VirtualClock):
        self._time = time
        self.now_ms, self.work_ns = time.now_ms, time.work_ns

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> VirtualTimer:
        return self._time.call_later(delay_ms, callback, self)

    def pause(self) -> None:
        """Hold back the callbacks of this node."""
        self._time.pause(self)

    def resume(self) -> None:
        """Run the callbacks that were held back."""
        self._time.resume(self)

    def forget(self) -> None:
        """Drop the pending callbacks of this node, which has stopped or crashed."""
        self._time.forget(self)


class LongPollClock:
    """The virtual time with the machine's timers, so that a frozen clock does not block fetches."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop):
        self.now_ms, self.work_ns = clock.now_ms, clock.work_ns
        self._loop = loop

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)


def _machine_ms() -> float:
    return time.time_ns() / 1_000_000
