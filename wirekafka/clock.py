"""Time and timers as a broker sees them, so that tests and simulations can own both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Drop the call if it has not been made."""


class Clock(Protocol):
    """The only source of time below `server/`."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, after `delay_ms`."""
