"""Requests between processes: each message may be late, overtaken, or lost."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.replication.schedule import Process, Schedule

Reply = Callable[[Any], None]


class Network:
    """Delays every message at random, and loses those between processes that are cut off."""

    def __init__(self, schedule: Schedule, random: Random):
        self._schedule = schedule
        self._random = random
        self._cut: dict[tuple[str, str], int] = {}
        self.loss = 0.0
        """The probability that a message is lost."""
        self.slowness = 0.0
        """The probability that a message takes up to five seconds."""

    def ask(
        self,
        source: Process,
        target: Process | None,
        serve: Callable[[Reply], None],
        answered: Reply,
        timeout_ms: float = 2_000,
    ) -> None:
        """Have `target` serve a request; `answered` gets the reply, or None at the timeout.

        A reply that comes after the timeout is dropped, but the request may still be served.
        """
        is_over = False

        def finish(value: Any) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                answered(value)

        def reply(value: Any) -> None:
            assert target is not None
            self._send(target, source, lambda: finish(value))

        timer = source.call_later(timeout_ms, lambda: finish(None))
        if target is not None:
            self._send(source, target, lambda: serve(reply))

    def cut(self, source: str, target: str) -> None:
        """Lose all that is sent one way, until mended as often as cut."""
        self._cut[source, target] = self._cut.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        self._cut[source, target] -= 1

    def heal(self) -> None:
        """End all faults."""
        self._cut.clear()
        self.loss = self.slowness = 0.0

    def _send(self, source: Process, target: Process, deliver: Callable[[], None]) -> None:
        random = self._random
        delay_ms = random.expovariate(0.5)
        if random.random() < self.slowness:
            delay_ms += random.random() * 5_000
        if random.random() < self.loss:
            return
        route = source.name, target.name

        def arrive() -> None:
            if not self._cut.get(route):
                target.run(deliver)

        if not self._cut.get(route):
            self._schedule.after(delay_ms, arrive)
