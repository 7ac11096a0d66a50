"""Virtual time: events run in order, one at a time, and take no time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from tests.simulation.disk import Crash

START_MS = 1_700_000_000_000


class Event:
    """A scheduled call that can be cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]):
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Schedule:
    """All future events. `steps` counts those that have run."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        self.steps = 0
        self._serial = count()
        self._events: list[tuple[float, int, Event]] = []

    def after(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        """Call back once after a delay."""
        event = Event(callback)
        at_ms = self.time_ms + max(delay_ms, 0)
        heapq.heappush(self._events, (at_ms, next(self._serial), event))
        return event

    def run_until(self, done: Callable[[], bool], limit_ms: float) -> bool:
        """Run events until a condition holds, False if `limit_ms` more pass before."""
        until_ms = self.time_ms + limit_ms
        while not done():
            if not self._events or self._events[0][0] > until_ms:
                self.time_ms = until_ms
                return done()
            self.time_ms, _, event = heapq.heappop(self._events)
            if event.callback is not None:
                self.steps += 1
                event.callback()
        return True


class Process:
    """One life of a process, and its `Clock`: nothing of it runs once it is dead, or while paused.

    What falls due during a pause runs when the process continues, as with SIGSTOP and SIGCONT.
    """

    def __init__(self, schedule: Schedule, name: str, died: Callable[[], None] | None = None):
        self.name = name
        self.schedule = schedule
        self.is_dead = False
        self._died = died
        self._late: list[Callable[[], None]] | None = None

    def now_ms(self) -> int:
        return START_MS + int(self.schedule.time_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        event = self.schedule.after(delay_ms, lambda: self.run(callback))
        return event

    def every(self, interval_ms: float, task: Callable[[], None]) -> None:
        """Run a task periodically until the process ends."""

        def fire() -> None:
            self.call_later(interval_ms, fire)
            task()

        self.call_later(interval_ms, fire)

    def run(self, callback: Callable[[], None]) -> None:
        """Run a callback in this process, if it is alive; a crash of its disk ends the process."""
        if self.is_dead:
            return
        if self._late is not None:
            self._late.append(callback)
            return
        try:
            callback()
        except Crash:
            assert self._died is not None
            self._died()

    @property
    def is_paused(self) -> bool:
        return self._late is not None

    def pause(self) -> None:
        self._late = []

    def resume(self) -> None:
        late, self._late = self._late or [], None
        for callback in late:
            self.run(callback)
