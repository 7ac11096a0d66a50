"""The network of a simulated quorum, which also delivers messages twice."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.replication.network import Network
from tests.simulation.replication.schedule import Process, Schedule


class RepeatingNetwork(Network):
    """Delays, loses, and repeats messages."""

    def __init__(self, schedule: Schedule, random: Random):
        super().__init__(schedule, random)
        self.repetition = 0.0
        """The probability that a message arrives twice."""

    def heal(self) -> None:
        super().heal()
        self.repetition = 0.0

    def _send(self, source: Process, target: Process, deliver: Callable[[], None]) -> None:
        super()._send(source, target, deliver)
        if self._random.random() < self.repetition:
            super()._send(source, target, deliver)
