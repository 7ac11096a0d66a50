"""How far a table is behind its log: in records, and by the age of the oldest that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from wirekafka.client.client import Client, CliError
from wirekafka.errors import Error
from wirekafka.log.checkpoints import uuid_text
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.reader import ReaderError
from wirekafka.reader.fetches import Fetches, OffsetOutOfRange, visible
from wirekafka.reader.leaders import Leaders
from wirekafka.tables.scan import DamagedBatch, scan

_EARLIEST, _LATEST = -2, -1
_FETCH_BYTES = 64 << 10
_MOST_FETCHES = 16
"""Partitions whose oldest record is looked at: the partitions with the greatest lag."""
_READ = 1 << 3
"""Kafka's bit of the operation in authorized operations."""


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """A topic as a client may see it."""

    topic_id: str | None
    """None if there is no such topic any more."""
    partitions: tuple[int, ...]
    may_read: bool


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition of the log beside the table's mark; None where a leader does not answer."""

    partition: int
    mark: int | None
    start_offset: int | None
    end_offset: int | None

    @property
    def records(self) -> int | None:
        """The offsets that the table does not have yet."""
        if self.end_offset is None or self.start_offset is None:
            return None
        return max(self.end_offset - self.next_offset, 0)

    @property
    def next_offset(self) -> int:
        """Where the table goes on."""
        return max(self.mark or 0, self.start_offset or 0)


@dataclass(frozen=True, slots=True)
class TableLag:
    """The lag of a table over its partitions."""

    partitions: tuple[PartitionLag, ...]
    behind_ms: int | None
    """The age of the oldest record that the table does not have; None if it is unknown."""

    @property
    def records(self) -> int | None:
        """The offsets of all partitions that the table does not have; None if one is unknown."""
        known = [each.records for each in self.partitions]
        return None if None in known else sum(each for each in known if each is not None)


def topic_access(client: Client, topics: Iterable[str]) -> dict[str, TopicAccess]:
    """The topics that the client's user may describe, by name. Raises CliError.

    A topic is among them, too, if it does not exist and the user might describe it.
    """
    named = [MetadataRequest.Topic(name=name) for name in topics]
    if not named:
        return {}
    request = MetadataRequest(
        topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    found = {}
    for topic in client.send(request, MetadataResponse).topics:
        if topic.error_code in (Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION):
            found[topic.name or ""] = TopicAccess(
                None if topic.error_code else uuid_text(bytes(topic.topic_id)),
                tuple(sorted(each.partition_index for each in topic.partitions)),
                topic.topic_authorized_operations >= 0
                and bool(topic.topic_authorized_operations & _READ),
            )
    return found


def lags_of(
    client: Client, partitions: Mapping[str, Iterable[int]], ends: Mapping[str, Mapping[int, int]]
) -> dict[str, tuple[PartitionLag, ...]]:
    """The lag of each partition of topics, whose tables have marks, with few requests."""
    wanted = [(topic, index) for topic, indexes in partitions.items() for index in indexes]
    if not wanted:
        return {}
    starts = client.known_offsets(wanted, _EARLIEST)
    latest = client.known_offsets(wanted, _LATEST)
    return {
        topic: tuple(
            PartitionLag(
                index,
                ends[topic].get(index),
                starts.get((topic, index)),
                latest.get((topic, index)),
            )
            for index in indexes
        )
        for topic, indexes in partitions.items()
    }


def with_age(
    client: Client, topic: str, partitions: tuple[PartitionLag, ...], now_ms: int
) -> TableLag:
    """The lag of a table with the age of its oldest record; the user needs READ for that."""
    waiting = [each for each in partitions if each.records]
    if not waiting:
        return TableLag(partitions, 0 if partitions else None)
    waiting.sort(key=lambda each: each.records or 0, reverse=True)
    leaders = Leaders(client)
    times = []
    for each in islice(waiting, _MOST_FETCHES):
        time_ms = _time_at(leaders, topic, each.partition, each.next_offset)
        if time_ms is not None and time_ms >= 0:
            times.append(time_ms)
    return TableLag(partitions, max(now_ms - min(times), 0) if times else None)


def _time_at(leaders: Leaders, topic: str, partition: int, offset: int) -> int | None:
    """About the timestamp of the first record from an offset on: its batch's base timestamp."""
    fetches = Fetches(leaders, topic, partition, "read_committed", _FETCH_BYTES)
    try:
        data = fetches.response(offset)
        batches = visible(scan(data.records or b""), data)
    except (CliError, DamagedBatch, OffsetOutOfRange, ReaderError):
        return None
    return int(batches["base_timestamp"][0]) if len(batches) else None
