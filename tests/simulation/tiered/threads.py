"""The threads of one simulated process, in virtual time: blocking jobs that wait run on later."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

from greenlet import getcurrent, greenlet

from tests.simulation.disk import Crash
from tests.simulation.loop import VirtualLoop

_CURRENT: ContextVar[Threads] = ContextVar("threads")
"""The threads that the present job is one of."""
_LOOK_S = 0.001
"""How often a job that waits for another one looks whether that has happened."""


class VirtualEvent:
    """Stands for `threading.Event` among jobs."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def wait(self) -> bool:
        while not self._is_set:
            _CURRENT.get().wait(_LOOK_S)
        return True


class Threads:
    """Runs the jobs of a process (`Run`), one at a time, until they wait or end.

    A job that waits goes on at its time, unless its process is paused or dead by then.
    """

    def __init__(self, loop: VirtualLoop):
        self._loop = loop
        self._live: dict[greenlet, None] = {}
        self.is_dead = False

    async def run(self, job: Callable[[], Any]) -> Any:
        """Run a job; it goes on, as a thread does, if nobody awaits its result any more."""
        future = self._loop.create_future()

        def work() -> None:
            _CURRENT.set(self)
            result, failure = None, None
            try:
                result = job()
            except Crash:
                return
            except BaseException as error:  # It is raised where the result is awaited.
                failure = error
            finally:
                self._live.pop(thread, None)
            if future.done():
                return
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

        thread = greenlet(work)
        thread.gr_context = copy_context()
        self._live[thread] = None
        thread.switch()
        return await future

    def wait(self, duration_s: float) -> None:
        """Let the present job wait. Raises Crash if its process has ended."""
        self.check()
        thread = getcurrent()
        self._loop.call_later(duration_s, self._go_on, thread)
        assert thread.parent is not None
        thread.parent.switch()
        self.check()

    def check(self) -> None:
        """Raise Crash if the process has ended."""
        if self.is_dead:
            raise Crash("the process has ended")

    def end(self) -> None:
        """End all jobs where they wait, as the end of a process does."""
        self.is_dead = True
        current = getcurrent()  # A job, if it has ended the process by an operation of the disk.
        for thread in list(self._live):
            if thread is not current:
                thread.parent = current  # Where it goes on afterwards.
                thread.throw(Crash("the process has ended"))

    def _go_on(self, thread: greenlet) -> None:
        if not self.is_dead:
            thread.switch()
