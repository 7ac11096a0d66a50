"""A simulated disk that knows what the broker is doing, so that a crash can be aimed at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.disk import Crash, SimulatedDisk


class SitedDisk(SimulatedDisk):
    """Its log names the step of every operation.

    At operation `crash_after`, an fsync, it crashes when that is done; at `crash_at` before. A
    crashed disk does nothing more for those who clean up.
    """

    def __init__(self, seed: int = 0):
        super().__init__(seed)
        self.crash_after = -1
        self._step = "nothing"
        self._steps = 0
        self._is_dead = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Everything from here on is part of a step; its end counts as an operation."""
        self._steps += 1
        self._step = f"{self._steps} {name}"
        yield
        self.operation("done")

    def operation(self, what: str) -> None:
        if self._is_dead:
            raise Crash(what)
        try:
            super().operation(f"{self._step}: {what}")
        except Crash:
            self._is_dead = True
            raise

    def fsync(self, path: str) -> None:
        number = self.operations
        super().fsync(path)
        if number == self.crash_after:
            self._is_dead = True
            raise Crash(self.log[number])
