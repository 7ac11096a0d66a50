"""An event loop in a background thread, on which the nodes under test run, and their clock."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from wirekafka.testing.clock import SteadyClock, VirtualClock

T = TypeVar("T")

_EXIT_TIMEOUT_S = 5.0

# Nothing is printed to the standard error of tests that have not configured logging.
logging.getLogger("wirekafka").addHandler(logging.NullHandler())


class EngineGone(RuntimeError):
    """The broker is stopped or has crashed, so the call is impossible."""


class LoopThread(threading.Thread):
    """A thread with an event loop; methods may be called from any other thread."""

    def __init__(self) -> None:
        super().__init__(name="wirekafka", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock(self.loop)
        self.steady = SteadyClock(self.loop)
        """The time by which nodes watch each other, which tests do not change."""
        self._process_id = os.getpid()
        self._ended: Callable[[], object] = _no_callback

    def close(self) -> None:
        """End the thread, after the callbacks that are scheduled now."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()

    def abandon(self, end: Callable[[], object], ended: Callable[[], object]) -> None:
        """Call `end` in the thread, end the thread, and then call `ended`.

        Waits only when the interpreter exits, which does not wait for the thread itself.
        """

        def stop() -> None:
            end()
            self.loop.stop()

        if not self.is_alive():
            ended()
            return
        self._ended = ended
        self.loop.call_soon_threadsafe(stop)
        if not threading.main_thread().is_alive():
            self.join(_EXIT_TIMEOUT_S)

    def complete(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; returns its result."""
        if not self.is_alive():
            coroutine.close()
            raise EngineGone(
                "the broker was stopped"
                if self._process_id == os.getpid()
                else "the broker runs in the process this one was forked from: connect to"
                " its bootstrap_servers from here, as any client does"
            )
        if threading.current_thread() is self:
            coroutine.close()
            raise RuntimeError(
                "called from the broker's own thread, in which `when=` runs: it would"
                " wait for itself; decide by the request alone"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def do(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the thread; returns its result."""

        async def call() -> T:
            return function(*arguments)

        return self.complete(call())

    def run(self) -> None:
        """Serve the loop; called by `start` in the new thread."""
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            self.clock.forget()
            self.steady.forget()
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            loop.close()
            self._ended()  # Only now does nothing here use the directory any more.


def _no_callback() -> None:
    """The default `ended`: `close` itself waits for the end of the thread."""
