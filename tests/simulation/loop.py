"""An asyncio loop in virtual time, which jumps to the next timer when nothing else is ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any

from tests.simulation.process import CURRENT, Process
from wirekafka.clock import Timer

START_MS = 1_700_000_000_000
_RESOLUTION_S = 1e-9


class Stuck(Exception):
    """A deadlock: no event is left, and something still waits."""


class VirtualLoop(asyncio.BaseEventLoop):
    """No sockets, no threads, no waiting: a timer is due as soon as nothing else is.

    What belongs to a `Process` runs while this is alive and not paused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        """The virtual time."""
        self.on_turn: Callable[[], None] | None = None
        """Called before the next callbacks are run, that is, after every step of any process."""
        # What is due is run in order; timers of the same moment in the order they were set in.
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled: list[tuple[float, int, asyncio.Handle]] = []
        self._timers_set = 0
        self._kept: list[asyncio.Task[Any]] = []
        self.set_task_factory(_owned_task)

    def time(self) -> float:
        return self.now_s

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
        self._ready.extend(process.resume())

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

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(self, callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        timer = _Handle(self, callback, args, context)
        self._timers_set += 1
        heappush(self._scheduled, (when, self._timers_set, timer))
        return timer

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        """Run what is ready, turn by turn, until the base class is to return from `run_forever`."""
        ready, timers = self._ready, self._scheduled
        while True:
            self._begin_turn()
            end_s = self.now_s + _RESOLUTION_S
            while timers and timers[0][0] < end_s:
                ready.append(heappop(timers)[2])
            for _ in range(len(ready)):
                handle: Any = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                process = context.get(CURRENT)
                if process is None or process.admits(handle):
                    try:
                        context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        message = f"Exception in {handle}"
                        self.call_exception_handler({"message": message, "exception": error})
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _begin_turn(self) -> None:
        """Advance the time to the next timer if nothing is ready."""
        timers = self._scheduled
        while timers and timers[0][2]._cancelled:  # type: ignore[attr-defined]
            heappop(timers)
        is_idle = not self._ready and not self._stopping  # type: ignore[attr-defined]
        next_s = timers[0][0] if timers else None
        if self.on_turn is not None:
            self.on_turn()
        if is_idle:
            if next_s is None:
                raise Stuck("everyone waits for someone else")
            self.now_s += max(0, next_s - self.now_s)


class _Handle(asyncio.Handle):
    """A callback; `asyncio.Handle` does more when one is created or cancelled."""

    __slots__ = ()

    def __init__(
        self, loop: VirtualLoop, callback: Callable[..., Any], args: Any, context: Context | None
    ):
        self._loop, self._callback, self._args = loop, callback, args
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


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
        return self.offset_ms + int(self._loop.now_s * self.rate * 1000)

    def work_ns(self) -> int:
        return int(self._loop.now_s * 1000) * 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(delay_ms, 0) / 1000 / self.rate, self._fire, callback)

    def _fire(self, callback: Callable[[], None]) -> None:
        if not self.is_dead:
            callback()
