"""Offsets of a query: JSON as Spark keeps it in checkpoints, ranges, and the limit of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

TopicPartition = tuple[str, int]
Positions: TypeAlias = dict[TopicPartition, int]
"""An offset of each partition."""


class OffsetSpan(NamedTuple):
    """The offsets of a partition from a start to an end."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset


def to_json(positions: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Offsets as {"orders": {"0": 12}}, in an order that is always the same."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Positions:
    """The offsets that `to_json` has encoded."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def limited(start: Positions, end: Positions, limit: int) -> Positions:
    """The end of a step of about `limit` offsets, shared out in proportion to what is unread.

    Every partition that has unread offsets gets at least one, so none waits for ever.
    """
    unread = {each: max(0, offset - start.get(each, offset)) for each, offset in end.items()}
    total = sum(unread.values())
    if total <= limit:
        return end
    return {
        each: end[each] - size + min(size, max(1, size * limit // total)) if size else end[each]
        for each, size in unread.items()
    }


def chunks(span: OffsetSpan, step: int | None) -> Iterator[OffsetSpan]:
    """Divide a span into spans of at most `step` offsets."""
    at = span.start_offset
    while at < span.end_offset:
        end = span.end_offset if step is None else min(at + step, span.end_offset)
        yield span._replace(start_offset=at, end_offset=end)
        at = end


def chunk_size(
    spans: Iterable[OffsetSpan], *, at_least: int | None, at_most: int | None
) -> int | None:
    """The offsets of a chunk, so that there are enough chunks and none has too many offsets."""
    sizes = [] if at_most is None else [at_most]
    if at_least is not None:
        sizes.append(max(1, sum(span.size for span in spans) // at_least))
    return min(sizes, default=None)
