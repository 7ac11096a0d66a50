"""How long a run waits for a broker: not long for what the broker has failed to do before."""

from __future__ import annotations

from collections import Counter

_ENOUGH = 3
_SHORT_S = 1.0


class WaitLimits:
    """Counts what was waited for in vain, so that thousands of cases do not wait for it again."""

    def __init__(self) -> None:
        self._missed: Counter[str] = Counter()

    def of(self, what: str, usual_s: float) -> float:
        """The longest wait in seconds: the usual one until the same was missed several times."""
        return usual_s if self._missed[what] < _ENOUGH else min(usual_s, _SHORT_S)

    def miss(self, what: str) -> None:
        """Note that it has not happened within the longest wait."""
        self._missed[what] += 1
