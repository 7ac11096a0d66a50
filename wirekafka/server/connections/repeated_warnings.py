"""Rate-limits warnings about clients: the first of a kind is logged, repeated ones are counted."""

from __future__ import annotations

import logging
from typing import NamedTuple

logger = logging.getLogger(__name__)

INTERVAL_MS = 60_000
"""How long repeated warnings are counted after one was logged."""
_MOST = 1000
_OTHERS = "other hosts"


class Occasion(NamedTuple):
    """The host, kind and time of a warning.

    `kind` is one of few constant texts: it contains nothing that the client chooses.
    """

    host: str
    kind: str
    now_ms: int


class RepeatedWarnings:
    """Limits warnings to one line a minute per host and kind, against clients that flood the log.

    Once a thousand pairs of host and kind are known, further hosts count as one.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    def log(
        self, level: int, occasion: Occasion, message: str, *, exc_info: BaseException | None = None
    ) -> None:
        """Log the message, or count it if its kind and host were logged within the last minute."""
        host, kind, now_ms = occasion
        key = host, kind
        if key not in self._seen and len(self._seen) >= _MOST:
            key = _OTHERS, kind
        seen = self._seen.get(key)
        if seen is not None and seen.is_recent(now_ms):
            seen.suppressed += 1
            return
        if seen is not None:
            _report(key, seen)
        self._seen[key] = _Seen(now_ms)
        logger.log(level, "%s", message, exc_info=exc_info)

    def sweep(self, now_ms: int) -> None:
        """Log how many warnings were suppressed, once their minute is over."""
        for key, seen in list(self._seen.items()):
            if not seen.is_recent(now_ms):
                del self._seen[key]
                _report(key, seen)


class _Seen:
    __slots__ = ("logged_ms", "suppressed")

    def __init__(self, logged_ms: int):
        self.logged_ms = logged_ms
        self.suppressed = 0

    def is_recent(self, now_ms: int) -> bool:
        # After the clock was set back, warnings must not be suppressed for long.
        return 0 <= now_ms - self.logged_ms < INTERVAL_MS


def _report(key: tuple[str, str], seen: _Seen) -> None:
    host, kind = key
    if seen.suppressed:
        logger.warning("%d more like this about %s, not logged: %s", seen.suppressed, host, kind)
