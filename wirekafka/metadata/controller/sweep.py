"""Changes of all partitions that concern one broker, in portions.

A broker that is fenced may be in thousands of ISRs. All their changes in one decision would keep
every other request waiting, so that they are written as several batches, as Kafka does with more
records than a batch may have. A controller that takes over in between finds consistent metadata:
the remaining changes are made when the broker's session ends, or when it registers or returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from wirekafka.codec.message import Message
from wirekafka.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.protocol.records.metadata import PartitionChangeRecord
from wirekafka.runtime.machine import Ticket

T = TypeVar("T")

PORTION = 300
"""How many partitions one batch changes: 2 to 5 ms of work."""

Pending = Sequence[tuple[bytes, int]]
"""Topic ids and partition indexes."""


class SweepKey(NamedTuple):
    """The key of the timer that continues the sweep for a broker."""

    broker: int


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The remaining changes for one broker.

    `change` returns the record of a partition, or None. `last` returns the records that complete
    the sweep, and `ended` are the soft effects that then take place.
    """

    broker: int
    pending: Pending
    change: Callable[[TopicImage, PartitionImage], PartitionChangeRecord | None]
    last: Callable[[], Sequence[Message]] = tuple
    ended: Sequence[Callable[[], None]] = ()
    is_gone: bool = True
    """Whether the broker counts as inactive until the sweep is complete."""
    replies_last: bool = False
    """Whether the command's reply waits for the last record; then it is `reply`."""
    reply: Any = None

    @property
    def key(self) -> SweepKey:
        return SweepKey(self.broker)

    def portion(self, image: MetadataImage, begin: int) -> tuple[list[Message], int]:
        """The records of the next partitions, and where the portion after them begins."""
        end = min(begin + PORTION, len(self.pending))
        records: list[Message] = []
        for topic_id, index in self.pending[begin:end]:
            topic = image.topics_by_id.get(topic_id)
            partition = topic.partitions.get(index) if topic is not None else None
            if topic is None or partition is None:
                continue  # Deleted meanwhile.
            record = self.change(topic, partition)
            if record is not None:
                records.append(record)
        if end == len(self.pending):
            records += self.last()
        return records, end


def in_portions(items: Iterable[T]) -> Iterator[list[T]]:
    """Split the changes of a non-atomic request into at least one portion, a command each."""
    remaining = iter(items)
    yield list(islice(remaining, PORTION))
    while portion := list(islice(remaining, PORTION)):
        yield portion


def begin(
    image: MetadataImage, first: Sequence[Message], sweep: Sweep
) -> tuple[list[Message], Sweep | None]:
    """The records before and in a sweep's first portion, and the sweep unless it is complete."""
    records, end = sweep.portion(image, 0)
    return [*first, *records], sweep if end < len(sweep.pending) else None


@dataclass(slots=True)
class Running:
    """A sweep in progress: where its next portion begins, and the ticket of its command."""

    sweep: Sweep
    ticket: Ticket[Any]
    begin: int = PORTION


def those(
    image: MetadataImage, concerns: Callable[[PartitionImage], bool]
) -> list[tuple[bytes, int]]:
    """The partitions that a condition holds for."""
    return [
        (topic.id, index)
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if concerns(partition)
    ]
