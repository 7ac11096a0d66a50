"""Markers of Spark sinks, committed without Spark."""

from __future__ import annotations

from wirekafka.client.client import Client
from wirekafka.client.sink_marker import Marker, group_of
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_NAMED = 9
"""From version 10 on, OffsetCommit names topics by id."""


def marker(query: str, batch: int, *, checkpoint: str | None = None, total: int = 1200) -> Marker:
    """The marker of a batch with 1,200 records, `batch` seconds after 1970 began."""
    return Marker(
        query=query,
        run="r",
        batch=batch,
        records=1200,
        total_records=total,
        producer_id=1,
        producer_epoch=batch,
        at_ms=1_000 * batch,
        driver="host/1",
        checkpoint=checkpoint,
    )


def commit_markers(
    bootstrap: str, transactional_id: str, topic: str, *markers: Marker | str
) -> None:
    """Commit markers as a sink does, or other metadata, one for each partition of a topic."""
    kind = OffsetCommitRequest.Topic
    partitions = [
        kind.Partition(partition_index=index, committed_offset=3, committed_metadata=_text(each))
        for index, each in enumerate(markers)
    ]
    group = group_of(transactional_id)
    request = OffsetCommitRequest(group_id=group, topics=[kind(name=topic, partitions=partitions)])
    with Client(bootstrap) as client:
        response = client.coordinator(group).send(request, OffsetCommitResponse, most=_NAMED)
    assert {each.error_code for each in response.topics[0].partitions} == {0}


def _text(marker: Marker | str) -> str:
    return marker if isinstance(marker, str) else marker.to_json()
