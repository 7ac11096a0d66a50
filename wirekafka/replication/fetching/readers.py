"""The positions of fetching clients, to monitor clients that commit no offsets, such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from wirekafka.codec.batch import batches
from wirekafka.errors import KafkaError
from wirekafka.replication.fetching.fetch_session import Key, Wanted
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.reader_names import SOURCE_PREFIX, is_query, reader_name

HISTORY_MS = 3_600_000
"""How long an open connection that does not fetch any more counts as a reader."""
ENDED_MS = 60_000
"""How long a closed connection counts as a reader: a client that reconnects is the same reader."""
OWN_SOFTWARE = "wirekafka"
"""The software name, as in ApiVersions, of the commands and of the console: they do not lag."""
LONGEST_CLIENT_ID = 256
"""Longer client ids are cut."""
MOST_READERS = 1000
MOST_PARTITIONS = 10_000
"""Of one reader."""
MOST_POSITIONS = 50_000
"""Of all readers, each of less than 600 bytes: at the most 30 MB."""

Find = Callable[[Key], Partition | None]
"""Looks up a partition."""


class FetchingClient(Protocol):
    """The client that sends a Fetch."""

    client_id: str | None

    @property
    def connection_id(self) -> str:
        """The name of the connection."""

    @property
    def client_host(self) -> str:
        """The address of the client."""

    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version of the client library."""


class ReadAccess(Protocol):
    """Which partitions a Fetch may read."""

    def serves(self, wanted: Wanted) -> bool:
        """Whether a partition exists on this broker, and the client may read it."""


class Reader:
    """One connection that fetches, with its last request for each partition."""

    __slots__ = (
        "_known",
        "at_ms",
        "client_id",
        "closed_ms",
        "host",
        "is_member",
        "is_query",
        "name",
        "seen",
    )

    def __init__(self, client: FetchingClient):
        self.client_id = (client.client_id or "")[:LONGEST_CLIENT_ID]
        self.name = reader_name(self.client_id)
        """The client id; for a consumer of Spark the name of its query."""
        self.is_query = is_query(self.client_id)
        """Whether the client reads for a Spark query."""
        self.host = client.client_host
        self.at_ms = 0
        self.closed_ms: int | None = None
        """When the connection was closed."""
        self.is_member = False
        """Whether the client has been found among the members of a group."""
        self.seen: dict[Key, Wanted] = {}
        self._known: dict[Key, tuple[int, int, int]] = {}

    def has_gone(self, now_ms: int) -> bool:
        """Whether the connection no longer counts as a reader."""
        if self.closed_ms is not None and now_ms - self.closed_ms >= ENDED_MS:
            return True
        return now_ms - self.at_ms > HISTORY_MS

    def positions(self, find: Find) -> Iterator[tuple[Partition, int]]:
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


class ReaderPosition(NamedTuple):
    """A reader's position in a partition: `next_offset` is the first not sent to it yet."""

    name: str
    host: str
    topic: str
    partition: int
    next_offset: int
    end_offset: int
    at_ms: int
    is_query: bool = False

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record sent to the client; None if it has got none."""
        return self.next_offset - 1 if self.next_offset > 0 else None

    @property
    def lag(self) -> int:
        """How many committed records the client has not been sent yet."""
        return max(self.end_offset - self.next_offset, 0)


class Readers:
    """The latest readers of a broker, closed connections for a minute; in memory and bounded.

    A fetch only stores references to its decoded request; positions are computed on demand. Only
    partitions that exist and that the client may read are noted: refused requests leave nothing.
    """

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}
        self._positions = 0

    def __len__(self) -> int:
        return len(self._readers)

    def note(
        self, client: FetchingClient, wanted: Sequence[Wanted], access: ReadAccess, now_ms: int
    ) -> None:
        """Note a request; within a fetch session it has only the partitions that changed."""
        reader = self._readers.get(client.connection_id)
        if reader is None:
            if _is_own(client) or not any(map(access.serves, wanted)):
                return
            reader = self._new(client, now_ms)
        reader.at_ms = now_ms
        seen = reader.seen
        before = len(seen)
        for each in wanted:
            key = each.key
            if key in seen or access.serves(each):
                seen[key] = each
        if len(seen) != before:
            while len(seen) > MOST_PARTITIONS:
                del seen[next(iter(seen))]
            self._positions += len(seen) - before
            self._make_room()

    def disconnected(self, connection_id: str, now_ms: int) -> None:
        """Note that a connection is closed; its reader ends a minute later."""
        reader = self._readers.get(connection_id)
        if reader is not None:
            reader.closed_ms = now_ms

    def sweep(self, now_ms: int) -> None:
        """Forget the readers that have gone; called periodically."""
        gone = [name for name, reader in self._readers.items() if reader.has_gone(now_ms)]
        for connection_id in gone:
            self._forget(connection_id)

    def present(self, now_ms: int) -> list[Reader]:
        """The readers that have not gone, in the order of their last Fetch."""
        readers = [each for each in self._readers.values() if not each.has_gone(now_ms)]
        return sorted(readers, key=lambda reader: reader.at_ms)

    def fetched(self, find: Find, now_ms: int) -> list[ReaderPosition]:
        """The newest position per reader's name and partition, sorted."""
        newest: dict[tuple[str, str, int], ReaderPosition] = {}
        for reader in self.present(now_ms):
            for partition, next_offset in reader.positions(find):
                newest[reader.name, partition.topic, partition.index] = ReaderPosition(
                    reader.name,
                    reader.host.lstrip("/"),
                    partition.topic,
                    partition.index,
                    next_offset,
                    partition.high_watermark,
                    reader.at_ms,
                    reader.is_query,
                )
        return sorted(newest.values())

    def _new(self, client: FetchingClient, now_ms: int) -> Reader:
        if len(self._readers) >= MOST_READERS:
            self.sweep(now_ms)
        if len(self._readers) >= MOST_READERS:
            self._forget_oldest()
        reader = self._readers[client.connection_id] = Reader(client)
        return reader

    def _make_room(self) -> None:
        while self._positions > MOST_POSITIONS and len(self._readers) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = sorted(self._readers, key=lambda known: self._readers[known].at_ms)
        for connection_id in islice(oldest, max(len(oldest) // 4, 1)):
            self._forget(connection_id)

    def _forget(self, connection_id: str) -> None:
        self._positions -= len(self._readers.pop(connection_id).seen)


def _is_own(client: FetchingClient) -> bool:
    """Whether this is a command or the console, and not a task of a streaming query."""
    is_wirekafka = client.client_software[0] == OWN_SOFTWARE
    return is_wirekafka and not (client.client_id or "").startswith(SOURCE_PREFIX)


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
