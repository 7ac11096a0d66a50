"""The progress of Spark queries: their sinks by the markers they commit, their sources by Fetches.

wirekafka's sink commits a marker in each transaction: an offset of the group
`wirekafka-sink-TRANSACTIONAL_ID` whose metadata is JSON. It is read from any Kafka cluster. What a
source has read only a wirekafka broker knows, as Spark commits no offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from wirekafka.client.client import Client, CliError, check
from wirekafka.console.offsets import list_groups
from wirekafka.console.source import GroupLag
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.replication.reader_names import SOURCE_PREFIX

SINK_PREFIX = "wirekafka-sink-"
"""Of the groups in which sinks commit their markers; the transactional id follows."""
_NAMED = 9
"""From version 10 on, OffsetFetch names topics by id."""
_MOST_SOURCES = 16
"""How many sources of one query are recognized by the place of its checkpoint."""
_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMarker:
    """The last batch that a sink has committed."""

    transactional_id: str
    query: str
    """The id of the query, which its checkpoint keeps."""
    batch: int
    records: int | None
    """The records of the batch."""
    total_records: int | None
    """The records of all batches of the query."""
    at_ms: int | None
    checkpoint: str | None
    """The URI of the checkpoint; None if it is not known."""

    @classmethod
    def parsed(cls, transactional_id: str, metadata: str | None) -> Self | None:
        """The marker in the metadata of a committed offset; None if it is something else."""
        try:
            found = json.loads(metadata or "null")
        except ValueError:
            return None
        if not isinstance(found, dict):
            return None
        query, batch = found.get("query"), _count(found.get("batch"))
        if not isinstance(query, str) or batch is None:
            return None
        checkpoint = found.get("checkpoint")
        return cls(
            transactional_id=transactional_id,
            query=query,
            batch=batch,
            records=_count(found.get("records")),
            total_records=_count(found.get("total_records")),
            at_ms=_count(found.get("at_ms")),
            checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        )

    @property
    def group(self) -> str:
        """The group in which the marker is committed."""
        return SINK_PREFIX + self.transactional_id

    def source_names(self) -> Iterator[str]:
        """The ends of the names of readers that read for this query.

        The consumers of Spark's own source have the hash of the source's place in the checkpoint in
        their names, wirekafka's source has the id of the query.
        """
        yield SOURCE_PREFIX + self.query
        if self.checkpoint is not None:
            for number in range(_MOST_SOURCES):
                yield f"-{java_hash_code(f'{self.checkpoint}/sources/{number}')}"


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A query: what its sink has committed last, and how far its sources are behind."""

    marker: SinkMarker | None
    """None of a query with another sink."""
    sources: Sequence[GroupLag]
    """Readers; empty if the query reads something else, or if the readers are not known."""

    @property
    def name(self) -> str:
        """The transactional id of the sink, or the name of the reader."""
        return self.sources[0].name if self.marker is None else self.marker.transactional_id

    @property
    def lag(self) -> int | None:
        """The records that the sources have not read; None if it is not known."""
        return sum(each.lag for each in self.sources) if self.sources else None

    @property
    def behind_ms(self) -> int | None:
        """The age in ms of the oldest record that is not read; None if it is not known."""
        known = [each.behind_ms for each in self.sources if each.behind_ms is not None]
        return max(known) if known and len(known) == len(self.sources) else None

    @property
    def idle_ms(self) -> int | None:
        """The time in ms since the last Fetch of any source; None without sources."""
        return min((each.idle_ms for each in self.sources), default=None)


def sink_markers(client: Client) -> tuple[list[SinkMarker], list[str]]:
    """The marker of each sink whose group the user may see, and the failures.

    Raises CliError if no broker can be reached.
    """
    brokers = [each.node_id for each in client.metadata([]).brokers]
    listed, problems = list_groups(client, brokers)
    by_coordinator: dict[int, list[str]] = {}
    for group in listed:
        if group.name.startswith(SINK_PREFIX):
            by_coordinator.setdefault(group.coordinator, []).append(group.name)
    markers: list[SinkMarker] = []
    for coordinator, names in by_coordinator.items():
        try:
            for at in range(0, len(names), _AT_ONCE):
                markers += _fetched(client, coordinator, names[at : at + _AT_ONCE])
        except CliError as error:
            problems.append(str(error))
    return markers, problems


def query_progress(
    markers: Iterable[SinkMarker], readers: Iterable[GroupLag]
) -> list[QueryProgress]:
    """Each query with its sink and its sources, as far as they are known to belong together."""
    left = [each for each in readers if each.is_query]
    found = []
    for marker in markers:
        ends = tuple(marker.source_names())
        sources = [each for each in left if each.name.endswith(ends)]
        left = [each for each in left if each not in sources]
        found.append(QueryProgress(marker, sources))
    return found + [QueryProgress(None, [each]) for each in left]


def _fetched(client: Client, coordinator: int, groups: Sequence[str]) -> Iterator[SinkMarker]:
    kind = OffsetFetchRequest.Group
    request = OffsetFetchRequest(groups=[kind(group_id=name, topics=None) for name in groups])
    response = client.node(coordinator).send(request, OffsetFetchResponse, most=_NAMED)
    for group in response.groups:
        check(group.error_code, f"group {group.group_id}")
        transactional_id = group.group_id.removeprefix(SINK_PREFIX)
        parsed = [
            SinkMarker.parsed(transactional_id, partition.metadata)
            for topic in group.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        ]
        present = [each for each in parsed if each is not None]
        if present:
            # Of several topics, the sink writes the marker to all that a batch has records for.
            yield max(present, key=lambda each: (each.at_ms or 0, each.batch))


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None
