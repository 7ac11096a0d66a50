"""A simulated disk that crashes at a chosen step of the broker's work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.disk import Crash, SimulatedDisk


class SitedDisk(SimulatedDisk):
    """Its log has the step of every operation.

    At operation `crash_after`, an fsync, it crashes when that is done; at `crash_at` before. A
    crashed disk ignores all further operations of cleanup code.
    """

    def __init__(self, seed: int = 0):
        super().__init__(seed)
        self.crash_after = -1
        self._step = "nothing"
        self._steps = 0
        self._is_dead = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Begin a step, to which all operations in the block belong; its end counts as one too."""
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
