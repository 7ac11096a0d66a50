"""How fast a number of bytes grows, and when it reaches a limit: pure, with time as an argument."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

_EVERY_MS = 10_000
_WINDOWS_MS = (3_600_000, 600_000)
"""The faster growth counts, of the last hour or of the last ten minutes: a burst is seen before an
hour has passed, and a slow leak is not hidden by a quiet moment."""
_LEAST_SPAN_MS = 60_000
"""Less than a minute says nothing about the future."""


class SizeSample(NamedTuple):
    """A number of bytes at a time in ms."""

    at_ms: int
    size_bytes: int


class SizeGrowth:
    """Samples of a number of bytes, one in ten seconds, for an hour."""

    def __init__(self) -> None:
        self._samples: deque[SizeSample] = deque(maxlen=_WINDOWS_MS[0] // _EVERY_MS + 1)
        self._last: SizeSample | None = None

    def note(self, now_ms: int, size_bytes: int) -> None:
        """Add a sample; samples in between are only remembered as the newest."""
        samples = self._samples
        if samples and now_ms < samples[-1].at_ms:
            samples.clear()  # The clock was set back.
        self._last = SizeSample(now_ms, size_bytes)
        if not samples or now_ms - samples[-1].at_ms >= _EVERY_MS:
            samples.append(self._last)

    @property
    def latest_ms(self) -> int:
        """The time of the newest sample; 0 without any."""
        return 0 if self._last is None else self._last.at_ms

    @property
    def bytes_per_s(self) -> float:
        """The faster growth of the last hour and the last ten minutes; 0 without any growth."""
        return max(map(self._rate, _WINDOWS_MS))

    def seconds_until(self, room_bytes: int) -> float | None:
        """When so many more bytes will be there, at this growth; None without any growth."""
        if room_bytes <= 0:
            return 0.0
        bytes_per_s = self.bytes_per_s
        return room_bytes / bytes_per_s if bytes_per_s > 0 else None

    def _rate(self, window_ms: int) -> float:
        last = self._last
        if last is None:
            return 0.0
        first = next(each for each in self._samples if each.at_ms >= last.at_ms - window_ms)
        span_ms = last.at_ms - first.at_ms
        if span_ms < _LEAST_SPAN_MS:
            return 0.0
        return max(last.size_bytes - first.size_bytes, 0) * 1000 / span_ms
