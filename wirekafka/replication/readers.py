"""The positions of fetching clients, to monitor those that commit no offsets, such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wirekafka.codec.batch import batches
from wirekafka.errors import KafkaError
from wirekafka.replication.fetch_session import Key, Wanted
from wirekafka.replication.partition import Partition

_MOST_READERS = 1000
_MOST_PARTITIONS = 10_000


class Reader:
    """One connection that fetches, with its last request for each partition."""

    __slots__ = ("_known", "at_ms", "client_id", "host", "seen")

    def __init__(self, client_id: str, host: str):
        self.client_id = client_id
        self.host = host
        self.at_ms = 0
        self.seen: dict[Key, Wanted] = {}
        self._known: dict[Key, tuple[int, int, int]] = {}

    def positions(self, find: Callable[[Key], Partition | None]) -> Iterator[tuple[Partition, int]]:
        """Each partition here with the next offset that the client gets.

        A position is found by reading batch headers again, once for each response.
        """
        known: dict[Key, tuple[int, int, int]] = {}
        for key, wanted in self.seen.items():
            partition = find(key)
            if partition is None:
                continue
            sent = wanted.fetch_offset, wanted.sent_bytes
            found = self._known.get(key)
            if found is None or found[:2] != sent:
                found = (*sent, _next_offset(partition, wanted))
            known[key] = found
            yield partition, found[2]
        self._known = known


class Fetched(NamedTuple):
    """A client's position in a partition: `next_offset` is the first not sent to it yet."""

    client_id: str
    host: str
    topic: str
    partition: int
    next_offset: int
    end_offset: int
    at_ms: int

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record sent to the client; None if it has got none."""
        return self.next_offset - 1 if self.next_offset > 0 else None

    @property
    def lag(self) -> int:
        """How many committed records the client has not been sent yet."""
        return max(self.end_offset - self.next_offset, 0)


class Readers:
    """The latest readers of a broker, including closed connections; in memory and bounded.

    A fetch only stores references to its decoded request; positions are computed on demand.
    """

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}

    def reader(self, connection_id: str, client_id: str, host: str) -> Reader:
        """Return the reader of a connection, created if it is new."""
        reader = self._readers.get(connection_id)
        if reader is None:
            if len(self._readers) >= _MOST_READERS:
                self._forget_some()
            reader = self._readers[connection_id] = Reader(client_id, host)
        return reader

    def note(self, reader: Reader, wanted: Sequence[Wanted], now_ms: int) -> None:
        """Note a request; within a fetch session it has only the partitions that changed."""
        reader.at_ms = now_ms
        seen = reader.seen
        for each in wanted:
            seen[each.topic, each.partition] = each
        while len(seen) > _MOST_PARTITIONS:
            del seen[next(iter(seen))]

    def since(self, at_ms: int) -> list[Reader]:
        """The readers that have fetched since then, in the order of their last Fetch."""
        recent = [reader for reader in self._readers.values() if reader.at_ms >= at_ms]
        return sorted(recent, key=lambda reader: reader.at_ms)

    def fetched(self, find: Callable[[Key], Partition | None]) -> list[Fetched]:
        """The newest position per client and partition, sorted; `find` looks up a partition."""
        newest: dict[tuple[str, str, int], Fetched] = {}
        for reader in sorted(self._readers.values(), key=lambda reader: reader.at_ms):
            for partition, next_offset in reader.positions(find):
                newest[reader.client_id, partition.topic, partition.index] = Fetched(
                    reader.client_id,
                    reader.host.lstrip("/"),
                    partition.topic,
                    partition.index,
                    next_offset,
                    partition.high_watermark,
                    reader.at_ms,
                )
        return sorted(newest.values())

    def _forget_some(self) -> None:
        oldest = sorted(self._readers, key=lambda known: self._readers[known].at_ms)
        for connection_id in islice(oldest, _MOST_READERS // 4):
            del self._readers[connection_id]


def _next_offset(partition: Partition, wanted: Wanted) -> int:
    """The end offset of the last batch sent, found by reading the batch headers again."""
    next_offset = wanted.fetch_offset
    if not wanted.sent_bytes:
        return next_offset
    log = partition.log
    try:
        found = log.read(next_offset, wanted.sent_bytes, end_offset=log.end_offset)
        for _, header in batches(b"".join(found.buffers())):
            next_offset = header.end_offset
    except KafkaError:
        pass  # Deleted since: the requested offset is all that is known.
    return next_offset
