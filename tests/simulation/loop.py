"""An asyncio loop in virtual time, which jumps to the next timer when nothing else is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from wirekafka.clock import Timer

START_MS = 1_700_000_000_000


class Stuck(Exception):
    """A deadlock: no event is left, and something still waits."""


class VirtualLoop(asyncio.BaseEventLoop):
    """No sockets, no threads, no waiting: a timer is due as soon as nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s = 0.0
        self._selector = self
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_s

    def select(self, timeout_s: float | None) -> list[Any]:
        """Called by the base class when nothing is ready: advance the time."""
        if timeout_s is None:
            raise Stuck("everyone waits for someone else")
        if timeout_s > 0:
            self._virtual_s += timeout_s
        return []

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it at once, so that threads add no nondeterminism."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        pass


class NodeClock:
    """The `Clock` of one run of a node; its timers do not fire once `is_dead`."""

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0):
        self._loop = loop
        self._start_ms = START_MS + skew_ms
        self.is_dead = False

    def now_ms(self) -> int:
        return self._start_ms + int(self._loop.time() * 1000)

    def work_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(delay_ms, 0) / 1000, self._fire, callback)

    def _fire(self, callback: Callable[[], None]) -> None:
        if not self.is_dead:
            callback()
