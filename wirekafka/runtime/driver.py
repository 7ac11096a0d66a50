"""Drives coroutines without tasks: a coroutine without waits costs no turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from wirekafka.runtime.promise import DirectPromise


class Driver:
    """Drives one coroutine until it ends or is stopped; use `start` or `start_later`.

    The coroutine goes on at once where it awaits a `DirectPromise`, otherwise as its futures
    complete. It must handle its own errors: an error that escapes is raised where the coroutine
    went on.
    """

    __slots__ = ("_coroutine", "_has_stopped", "_is_running")

    def __init__(self, coroutine: Coroutine[object, None, None] | None = None):
        self._coroutine = coroutine
        self._has_stopped = False
        self._is_running = False

    def stop(self) -> None:
        """End the coroutine where it waits; at its next wait if it is the caller."""
        self._has_stopped = True
        if self._coroutine is not None and not self._is_running:
            self._coroutine.close()

    def begin(self, function: Callable[[], Coroutine[object, None, None]]) -> None:
        """Make the coroutine, unless this was stopped before, and run it to its first wait."""
        if not self._has_stopped:
            self._coroutine = function()
            self.go_on()

    def go_on(self, _: object = None) -> None:
        """Run the coroutine to its next wait."""
        coroutine = self._coroutine
        if self._has_stopped or coroutine is None:
            return
        self._is_running = True
        try:
            waited = coroutine.send(None)
        except StopIteration:
            return
        finally:
            self._is_running = False
        if self._has_stopped:
            coroutine.close()
        else:
            when_ready(waited, self.go_on)


def start(coroutine: Coroutine[object, None, None]) -> None:
    """Drive a coroutine: at once up to its first wait."""
    Driver(coroutine).go_on()


def start_later(function: Callable[[], Coroutine[object, None, None]]) -> Driver:
    """Drive a coroutine that is made at the event loop's next turn."""
    driver = Driver()
    asyncio.get_running_loop().call_soon(driver.begin, function)
    return driver


def when_ready(waited: Any, callback: Callable[[object], None]) -> None:
    """Call back once a coroutine that has yielded `waited` can go on.

    `waited` is a future, a `DirectPromise`, or None from a coroutine that waits for one turn of the
    event loop. Only this function relies on the way in which asyncio's own tasks wait.
    """
    if waited.__class__ is DirectPromise:
        waited.resume = callback
    elif waited is None:
        asyncio.get_running_loop().call_soon(callback, None)
    else:
        # As a task does: it marks the future as awaited. Private to CPython.
        waited._asyncio_future_blocking = False
        waited.add_done_callback(callback)
