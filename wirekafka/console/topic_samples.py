"""How many records each topic takes in per second, during the last hour."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from wirekafka.client.membership import TopicPartition
from wirekafka.console.source import TopicRate
from wirekafka.metrics.lag import HISTORY_MS, LagHistory
from wirekafka.protocol.metadata import MetadataResponse

_MOST_TOPICS = 5_000
_MOST_SAMPLES = HISTORY_MS // LagHistory.EVERY_MS


class Totals:
    """The number of records in a topic over time; an idle topic takes little memory."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")

    def note(self, at_ms: int, total: int) -> None:
        """Add a sample."""
        numbers = self._numbers
        if len(numbers) >= 6 and numbers[-1] == numbers[-3] == numbers[-5] == total:
            numbers[-2] = at_ms  # It is idle: the last three samples are enough.
            return
        numbers.extend((at_ms, total))
        del numbers[: max(len(numbers) - 2 * _MOST_SAMPLES, 0)]

    def rate(self) -> float | None:
        """Records per second between the last two samples."""
        numbers = self._numbers[-4:]
        return _rates(numbers)[0][1] if len(numbers) == 4 else None

    def rates(self) -> Sequence[tuple[int, float]]:
        """Each sample's time, and records per second since the previous sample; for any thread."""
        return _rates(self._numbers[:])


class TopicSamples:
    """The totals of all topics."""

    def __init__(self) -> None:
        self._topics: dict[str, Totals] = {}

    def sample(self, at_ms: int, totals: Mapping[str, int]) -> list[TopicRate]:
        """Add a sample of each topic; returns the rates since the previous sample."""
        found = []
        for name, total in totals.items():
            kept = self._topics.get(name)
            if kept is None:
                if len(self._topics) >= _MOST_TOPICS:
                    continue
                kept = self._topics[name] = Totals()
            kept.note(at_ms, total)
            found.append(TopicRate(name, kept.rate(), None, None, kept))
        for name in self._topics.keys() - totals.keys():
            del self._topics[name]
        return found


def sums(
    topics: Iterable[MetadataResponse.Topic], ends: Mapping[TopicPartition, int]
) -> dict[str, int]:
    """The sum of the end offsets of each topic whose partitions all have one."""
    found = {}
    for topic in topics:
        name = topic.name or ""
        known = [ends.get((name, each.partition_index)) for each in topic.partitions]
        if known and None not in known:
            found[name] = sum(end for end in known if end is not None)
    return found


def _rates(numbers: array[int]) -> list[tuple[int, float]]:
    samples = [(numbers[at], numbers[at + 1]) for at in range(0, len(numbers), 2)]
    return [
        (later_ms, max(end - start, 0) * 1000 / max(later_ms - earlier_ms, 1))
        for (earlier_ms, start), (later_ms, end) in pairwise(samples)
    ]
