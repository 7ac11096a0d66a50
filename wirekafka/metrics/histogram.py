"""A histogram of the last minutes, from which percentiles are computed when they are asked for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The percentiles that Kafka's histograms have, as the label of Prometheus."""

_STEP_BITS = 4
"""Each power of two is divided into 16 buckets: a percentile is at most 3 % off."""
_WINDOWS = 5


def bucket_of(value: int) -> int:
    """The bucket of a value of at least 0; it grows with the value."""
    shift = value.bit_length() - _STEP_BITS - 1
    return value if shift <= 0 else (shift << _STEP_BITS) + (value >> shift)


def middle_of(bucket: int) -> float:
    """The middle of the values in a bucket."""
    shift = (bucket >> _STEP_BITS) - 1
    if shift <= 0:
        return float(bucket)
    low = ((bucket & ((1 << _STEP_BITS) - 1)) + (1 << _STEP_BITS)) << shift
    return low + ((1 << shift) - 1) / 2


class Histogram:
    """Counts integers of at least 0 over five windows of equal length; `rotate` begins the next.

    `count` is the number of all values ever recorded.
    """

    __slots__ = ("_earlier", "_recent", "count")

    def __init__(self) -> None:
        self.count = 0
        self._recent: dict[int, int] = {}
        self._earlier: deque[dict[int, int]] = deque(maxlen=_WINDOWS - 1)

    def record(self, value: int, times: int = 1) -> None:
        """Count a value, as often as `times` says."""
        self.count += times
        # As `bucket_of`: a call would cost as much as the rest.
        shift = value.bit_length() - 5
        bucket = value if shift <= 0 else (shift << 4) + (value >> shift)
        recent = self._recent
        recent[bucket] = recent.get(bucket, 0) + times

    def rotate(self) -> None:
        """Begin a window; the oldest is dropped."""
        if self._recent or any(self._earlier):
            self._earlier.append(self._recent)
            self._recent = {}

    def recent_mean(self) -> float:
        """The mean of the values in the windows; 0 where there is none."""
        pairs = [pair for window in self.windows() for pair in window.items()]
        count = sum(number for _, number in pairs)
        return sum(middle_of(bucket) * number for bucket, number in pairs) / count if count else 0.0

    def windows(self) -> Iterable[Mapping[int, int]]:
        """How often each bucket was hit, by window."""
        return chain(self._earlier, (self._recent,))


def quantiles(
    histograms: Sequence[Histogram], wanted: Sequence[str] = QUANTILES, zeros: int = 0
) -> dict[str, float]:
    """The percentiles of the values of all histograms, and of `zeros` values of 0.

    All are 0 where no value was recorded lately.
    """
    merged: Counter[int] = Counter({0: zeros} if zeros else {})
    for histogram in histograms:
        for window in histogram.windows():
            merged.update(window)
    ranked = sorted(merged.items())
    total = sum(count for _, count in ranked)
    found: dict[str, float] = {}
    for name in wanted:
        rank = float(name) * total
        seen = 0
        value = 0.0
        for bucket, count in ranked:
            seen += count
            value = middle_of(bucket)
            if seen >= rank:
                break
        found[name] = value
    return found
