"""A process of the simulation: what it schedules on the loop waits for it, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from tests.simulation.loop import VirtualLoop

CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process on whose behalf code runs; None for clients and the network."""


class Process:
    """One run of a program. Tasks, timers and callbacks that it starts belong to it.

    While it is paused they wait, as those of a process that is stopped by SIGSTOP, and are run in
    order when it continues. Once it is dead they are dropped.
    """

    def __init__(self, loop: VirtualLoop):
        self.is_dead = False
        self.has_run = False
        """Set whenever the process has done something, and cleared by the checks."""
        self.died: asyncio.Future[None] = loop.create_future()
        self.io_delay_s: Callable[[], float] = lambda: 0.0
        """How long the next work in a thread takes: a sync, for example."""
        self._loop = loop
        self._held: list[asyncio.Handle] | None = None
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._context: Context = copy_context()
        self._context.run(CURRENT.set, self)

    @property
    def is_paused(self) -> bool:
        return self._held is not None

    def run(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call back in this process: at once, when it continues, or never if it is dead."""
        if self.is_dead:
            return
        context = self._context.copy()
        if self._held is None:
            self.has_run = True
            context.run(callback, *arguments)
        else:
            self._held.append(asyncio.Handle(callback, arguments, self._loop, context))

    def create_task(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of this process."""
        return self._context.copy().run(self._loop.create_task, coroutine)

    def owns(self, task: asyncio.Task[Any]) -> None:
        """Note that a task belongs to this process."""
        self._tasks.add(task)

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether the loop may run this now; it is kept until the process continues, or dropped."""
        if self._held is None:
            self.has_run = True
            return not self.is_dead
        self._held.append(handle)
        return False

    def pause(self) -> None:
        """Do nothing from now on."""
        if not self.is_dead and self._held is None:
            self._held = []

    def resume(self) -> list[asyncio.Handle]:
        """Continue; returns what has become due meanwhile, for the loop."""
        held, self._held = self._held or [], None
        return held

    def end(self) -> None:
        """End at once: nothing that belongs to the process is ever run again."""
        if self.is_dead:
            return
        self.is_dead = True
        # Before `_held` is dropped, which may have the only reference to a task.
        tasks = [each for each in self._tasks if not each.done()]
        self._held = None
        self._loop.keep(tasks)
        for task in tasks:
            coroutine = task.get_coro()
            if getcoroutinestate(coroutine) == CORO_CREATED:  # type: ignore[arg-type]
                coroutine.close()  # Otherwise a warning says that it was never awaited.
        if not self.died.done():
            self.died.set_result(None)
