"""Delays between retries, which grow while the failures go on."""

from __future__ import annotations

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """A delay that doubles with each failure in a row, from the first to the longest."""

    first_ms: int
    longest_ms: int
    jitter: float = 0.0
    """The share by which a delay is shortened or prolonged at random, so that nodes that have
    failed at the same time do not all return at the same time."""

    def delay_ms(self, failures: int) -> float:
        """Return the delay in ms after the first failure (0) or after so many further failures."""
        delay_ms = min(self.first_ms << min(failures, _MOST_DOUBLINGS), self.longest_ms)
        if not self.jitter:
            return delay_ms
        return delay_ms * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311
