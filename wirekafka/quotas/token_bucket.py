"""A token bucket, which limits changes of topics at the controller (KIP-599)."""

from __future__ import annotations

import math

from wirekafka.quotas.rate import LONGEST_MS, Windows


class TokenBucket:
    """Tokens that accrue at a rate, up to as many as the windows' whole length brings.

    Taking more than there are is allowed once: nothing more can be taken until the debt is paid.
    """

    __slots__ = ("__weakref__", "_tokens", "_updated_ms", "limit", "windows")

    def __init__(self, windows: Windows, limit: float):
        self.windows = windows
        self.limit = limit
        """Tokens per second."""
        self._tokens = math.inf  # Full at the first use.
        self._updated_ms = 0

    @property
    def burst(self) -> float:
        """The most tokens there can be."""
        number, size_ms = self.windows
        return self.limit * number * size_ms / 1000

    def tokens(self, now_ms: int) -> float:
        """How many tokens there are; negative while there is a debt."""
        earned = self.limit * (now_ms - self._updated_ms) / 1000
        return min(self.burst, self._tokens + earned)

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens, into debt if there are too few."""
        self._tokens = min(self.burst, self.tokens(now_ms) - count)
        self._updated_ms = now_ms

    def throttle_ms(self, now_ms: int, spent: float = 0.0) -> int:
        """How long it takes until there is no debt, if `spent` tokens more had been taken."""
        tokens = min(self.burst, self.tokens(now_ms) - spent)
        if tokens >= 0:
            return 0
        return min(math.floor(-tokens / self.limit * 1000 + 0.5), LONGEST_MS)
