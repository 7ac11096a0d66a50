"""Lag in records and in time, and its history: pure, with time as an argument."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

HISTORY_MS = 3_600_000
"""How far back histories go: one hour."""
_MOST_SAMPLES = 480


def lag_of(position: int, end_offset: int) -> int:
    """How many records a reader at `position` has not read; never negative.

    A position may be beyond the end: after a truncation, or where the end was read before it.
    """
    return max(end_offset - position, 0)


class EndOffsets:
    """When the end of a partition reached which offset, for an hour, in at most 8 KB.

    It is exact to the time between two calls of `observe`; older times become less exact.
    """

    __slots__ = ("_ends", "_seen_ms", "_times")

    def __init__(self) -> None:
        self._times = array("q")
        self._ends = array("q")
        self._seen_ms = 0

    def observe(self, now_ms: int, end_offset: int) -> None:
        """Note the end offset; an end offset below the last restarts the history."""
        times, ends = self._times, self._ends
        if ends and (end_offset < ends[-1] or now_ms < self._seen_ms):
            del times[:], ends[:]
        if not ends or end_offset > ends[-1]:
            if ends and self._seen_ms > times[-1]:
                # It has not moved for a while: what is new has arrived since the last look.
                times.append(self._seen_ms)
                ends.append(ends[-1])
            times.append(now_ms)
            ends.append(end_offset)
            if len(times) > _MOST_SAMPLES:
                self._thin_out(now_ms)
        self._seen_ms = now_ms

    @property
    def first_ms(self) -> int | None:
        """Since when the history goes, in ms; None without any."""
        return self._times[0] if self._times else None

    def passed_ms(self, offset: int) -> int | None:
        """When the record at `offset` was appended, in ms; None if unknown.

        The time is unknown for a record before the first observation, and for a future record.
        """
        ends, times = self._ends, self._times
        after = bisect_right(ends, offset)
        if after == 0 or after == len(ends):
            return None
        first, last = ends[after - 1], ends[after]
        span_ms = times[after] - times[after - 1]
        return times[after - 1] + span_ms * (offset - first + 1) // (last - first)

    def _thin_out(self, now_ms: int) -> None:
        """Drop samples older than an hour, and every second sample of the older half."""
        times, ends = self._times, self._ends
        old = max(bisect_right(times, now_ms - HISTORY_MS) - 1, 0)
        del times[:old], ends[:old]
        half = len(times) // 2
        times[:half], ends[:half] = times[:half:2], ends[:half:2]


class Behind(NamedTuple):
    """One reader's position in a partition. `behind_ms` is None if it is not known."""

    position: int
    end_offset: int
    behind_ms: int | None

    @property
    def lag(self) -> int:
        """The records it has not read."""
        return lag_of(self.position, self.end_offset)


def behind(position: int, end_offset: int, appended_ms: int | None, now_ms: int) -> Behind:
    """Compute how far a reader is behind.

    `appended_ms` is when the first record that it has not read was appended, None if unknown.
    """
    if lag_of(position, end_offset) == 0:
        return Behind(position, end_offset, 0)
    if appended_ms is None:
        return Behind(position, end_offset, None)
    return Behind(position, end_offset, max(now_ms - appended_ms, 0))


class LagSample(NamedTuple):
    """The lag of all partitions of a reader; `behind_ms` is the longest of any; -1 if unknown."""

    at_ms: int
    lag: int
    behind_ms: int


class LagHistory:
    """The lag of one group or reader during the last hour, sampled every ten seconds."""

    __slots__ = ("_numbers",)

    EVERY_MS = 10_000
    _FIELDS = 3

    def __init__(self) -> None:
        self._numbers = array("q")

    def note(self, sample: LagSample) -> None:
        """Add a sample, and drop samples older than an hour."""
        numbers, size = self._numbers, self._FIELDS
        numbers.extend(sample)
        while len(numbers) > size and numbers[0] < sample.at_ms - HISTORY_MS:
            del numbers[:size]
        if len(numbers) > size * (HISTORY_MS // self.EVERY_MS + 1):
            del numbers[:size]

    def samples(self) -> Iterator[LagSample]:
        """The samples, oldest first; threads other than the caller of `note` may call it."""
        numbers = self._numbers[:]
        size = self._FIELDS
        for at in range(0, len(numbers), size):
            yield LagSample(*numbers[at : at + size])

    @property
    def latest_ms(self) -> int:
        """When the last sample was noted; 0 without any."""
        return self._numbers[-self._FIELDS] if self._numbers else 0
