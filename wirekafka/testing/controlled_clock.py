"""The clock of a broker or a cluster under test, as tests use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

_MS = 1000.0


class Time(Protocol):
    """The control of a node's time; an `Engine` implements it."""

    def now_ms(self) -> int: ...
    def advance(self, delta_ms: float) -> None: ...
    def freeze(self, at_ms: float | None) -> None: ...
    def thaw(self) -> None: ...


class Clock:
    """The clock of a broker, by which sessions, retention, transactions and rebalances run.

    Clients use the machine's clock.
    """

    def __init__(self, time: Callable[[], Time]):
        self._time = time

    @property
    def now_ms(self) -> int:
        """The broker's time, in ms since the epoch."""
        return self._time().now_ms()

    def advance(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Move the clock forward and run every timer that falls due before returning.

        Raises ValueError for a negative time.
        """
        delta_s = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        if delta_s < 0:
            raise ValueError(f"time goes forward only, not by {delta_s} s")
        self._time().advance(delta_s * _MS)

    def freeze(self, at_ms: float | None = None) -> Frozen:
        """Stop the clock, until `thaw` or the end of a `with`; `advance` still moves it.

        `at_ms` is the time to stop at, in ms since the epoch; None is now.
        """
        self._time().freeze(at_ms)
        return Frozen(self)

    def thaw(self) -> None:
        """Let a frozen clock continue from its present time."""
        self._time().thaw()


class Frozen:
    """A context manager that thaws a frozen clock at its end."""

    def __init__(self, clock: Clock):
        self._clock = clock

    def __enter__(self) -> Clock:
        return self._clock

    def __exit__(self, *_: Any) -> None:
        self._clock.thaw()
