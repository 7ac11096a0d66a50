"""The progress of Spark queries: their sinks by the markers they commit, their sources by Fetches.

wirekafka's sink commits a marker in each transaction: an offset of the group
`wirekafka-sink-TRANSACTIONAL_ID` whose metadata is JSON. It is read from any Kafka cluster. What a
source has read only a wirekafka broker knows, as Spark commits no offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wirekafka.client.client import Client, CliError, check
from wirekafka.client.sink_marker import SINK_PREFIX, Marker, group_of
from wirekafka.console.offsets import list_groups
from wirekafka.console.source import GroupLag
from wirekafka.coordinator.java_hash import java_hash_code
from wirekafka.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from wirekafka.replication.reader_names import SOURCE_PREFIX

_NAMED = 9
"""From version 10 on, OffsetFetch names topics by id."""
_MOST_SOURCES = 16
"""How many sources of one query are recognized by the place of its checkpoint."""
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A query: what its sink has committed last, and how far its sources are behind."""

    transactional_id: str | None
    """Of the sink; None of a query with another sink."""
    marker: Marker | None
    """The last batch that the sink has committed."""
    sources: Sequence[GroupLag]
    """Readers; empty if the query reads something else, or if the readers are not known."""

    @property
    def name(self) -> str:
        """The transactional id of the sink, or the name of the reader."""
        return self.transactional_id or self.sources[0].name

    @property
    def group(self) -> str:
        """The group in which the sink commits its marker."""
        return group_of(self.transactional_id or "")

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


def sink_markers(client: Client) -> tuple[dict[str, Marker], list[str]]:
    """The marker of each sink whose group the user may see, by transactional id; the failures.

    Raises CliError if no broker can be reached.
    """
    brokers = [each.node_id for each in client.metadata([]).brokers]
    listed, problems = list_groups(client, brokers)
    by_coordinator: dict[int, list[str]] = {}
    for group in listed:
        if group.name.startswith(SINK_PREFIX):
            by_coordinator.setdefault(group.coordinator, []).append(group.name)
    markers: dict[str, Marker] = {}
    for coordinator, names in by_coordinator.items():
        try:
            for at in range(0, len(names), _AT_ONCE):
                markers |= _fetched(client, coordinator, names[at : at + _AT_ONCE])
        except CliError as error:
            problems.append(str(error))
    return markers, problems


def query_progress(
    markers: Mapping[str, Marker], readers: Iterable[GroupLag]
) -> list[QueryProgress]:
    """Each query with its sink and its sources, as far as they are known to belong together."""
    left = [each for each in readers if each.is_query]
    found = []
    for transactional_id, marker in markers.items():
        ends = tuple(_source_names(marker))
        sources = [each for each in left if each.name.endswith(ends)]
        left = [each for each in left if each not in sources]
        found.append(QueryProgress(transactional_id, marker, sources))
    return found + [QueryProgress(None, None, [each]) for each in left]


def _fetched(client: Client, coordinator: int, groups: Sequence[str]) -> dict[str, Marker]:
    kind = OffsetFetchRequest.Group
    request = OffsetFetchRequest(groups=[kind(group_id=name, topics=None) for name in groups])
    response = client.node(coordinator).send(request, OffsetFetchResponse, most=_NAMED)
    markers = {}
    for group in response.groups:
        check(group.error_code, f"group {group.group_id}")
        parsed = [
            Marker.parsed(partition.metadata)
            for topic in group.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        ]
        present = [each for each in parsed if each is not None]
        if present:
            # Of several topics, the sink writes the marker to all that a batch has records for.
            newest = max(present, key=lambda each: (each.at_ms, each.batch))
            markers[group.group_id.removeprefix(SINK_PREFIX)] = newest
    return markers


def _source_names(marker: Marker) -> Iterator[str]:
    """The ends of the names of readers that read for a marker's query.

    The consumers of Spark's own source have the hash of the source's place in the checkpoint in
    their names, wirekafka's source has the id of the query.
    """
    yield SOURCE_PREFIX + marker.query
    if marker.checkpoint is not None:
        for number in range(_MOST_SOURCES):
            yield f"-{java_hash_code(f'{marker.checkpoint}/sources/{number}')}"
