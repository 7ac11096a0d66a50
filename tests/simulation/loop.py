"""An asyncio loop in virtual time, which jumps to the next timer when nothing else is ready."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextvars import Context
from typing import Any

from tests.simulation.process import CURRENT, Process
from wirekafka.clock import Timer

START_MS = 1_700_000_000_000


class Stuck(Exception):
    """A deadlock: no event is left, and something still waits."""


class VirtualLoop(asyncio.BaseEventLoop):
    """No sockets, no threads, no waiting: a timer is due as soon as nothing else is.

    What belongs to a `Process` runs while this is alive and not paused.
    """

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s = 0.0
        self._selector = self
        self._clock_resolution = 1e-9
        self.on_turn: Callable[[], None] | None = None
        """Called before the next callbacks are run, that is, after every step of any process."""
        self._timers_set = 0
        self._kept: list[asyncio.Task[Any]] = []
        self.set_task_factory(_owned_task)

    def time(self) -> float:
        return self._virtual_s

    def select(self, timeout_s: float | None) -> list[Any]:
        """Called by the base class before it runs what is ready: advance the time if nothing is."""
        if self.on_turn is not None:
            self.on_turn()
        if timeout_s is None:
            raise Stuck("everyone waits for someone else")
        if timeout_s > 0:
            self._virtual_s += timeout_s
        return []

    def keep(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Keep the tasks of a process that has ended, as long as this loop is open.

        The garbage collector would end their coroutines, whose `finally` clauses would then close
        ports and connections at a time that depends on what else the Python process allocates.
        """
        self._kept += tasks

    def close(self) -> None:
        """End all coroutines now, so that none is left for the collector during another seed."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # One that awaits something in a `finally` clause cannot end.
            with contextlib.suppress(Exception):
                task.get_coro().close()  # type: ignore[union-attr]
        self._kept.clear()
        super().close()

    def resume(self, process: Process) -> None:
        """Let a paused process continue with what has become due meanwhile."""
        self._ready.extend(process.resume())  # type: ignore[attr-defined]

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it at once or, if the process's disk is slow, later; never in another thread."""
        future = self.create_future()
        process = CURRENT.get()
        delay_s = process.io_delay_s() if process is not None else 0.0
        if delay_s > 0:
            self.call_later(delay_s, _run_for, future, func, args)
        else:
            _run_for(future, func, args)
        return future

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        self._timers_set += 1
        timer.number = self._timers_set
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _call_soon(
        self, callback: Callable[..., Any], args: Any, context: Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        pass


class _Handle(asyncio.Handle):
    """A callback that is run if its process is alive and not paused."""

    def _run(self) -> None:
        process = self._context.get(CURRENT)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()  # type: ignore[misc]


class _Timer(asyncio.TimerHandle):
    """As `_Handle`; timers of the same moment are run in the order in which they were set."""

    __slots__ = ("number",)
    number: int

    def __lt__(self, other: _Timer) -> bool:  # type: ignore[override]
        mine: float = self._when  # type: ignore[attr-defined]
        others: float = other._when  # type: ignore[attr-defined]
        return mine < others or (mine == others and self.number < other.number)

    def _run(self) -> None:
        process = self._context.get(CURRENT)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()  # type: ignore[misc]


def _owned_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
    task = asyncio.Task(coroutine, loop=loop, **options)
    process = CURRENT.get()
    if process is not None:
        process.owns(task)
    return task


def _run_for(future: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
    if future.done():
        return
    try:
        future.set_result(func(*args))
    except Exception as error:
        future.set_exception(error)


class NodeClock:
    """The `Clock` of one run of a node; its timers do not fire once `is_dead`.

    The wall clock may jump (`offset_ms`), and run at another `rate` than true time, as may timers.
    """

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0, rate: float = 1.0):
        self._loop = loop
        self.offset_ms = START_MS + skew_ms
        self.rate = rate
        self.is_dead = False

    def now_ms(self) -> int:
        return self.offset_ms + int(self._loop.time() * self.rate * 1000)

    def work_ns(self) -> int:
        return int(self._loop.time() * 1000) * 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(delay_ms, 0) / 1000 / self.rate, self._fire, callback)

    def _fire(self, callback: Callable[[], None]) -> None:
        if not self.is_dead:
            callback()
