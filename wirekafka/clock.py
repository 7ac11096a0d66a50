"""The interface of time and timers, which tests and simulations replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call if it has not been made yet."""


class Clock(Protocol):
    """The only source of time below `server/`."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""

    def work_ns(self) -> int:
        """Nanoseconds since some point in the past, to measure how long a piece of work takes."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, after `delay_ms`."""
