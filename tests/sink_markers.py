"""Markers of Spark sinks, committed without Spark."""

from __future__ import annotations

import json

from wirekafka.client.client import Client
from wirekafka.console.spark_queries import SINK_PREFIX
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_NAMED = 9
"""From version 10 on, OffsetCommit names topics by id."""


def marker(query: str, batch: int, **more: object) -> str:
    """The metadata of a marker."""
    at_ms = 1_000 * batch
    found = {"query": query, "run": "r", "batch": batch, "records": 1200, "at_ms": at_ms}
    return json.dumps(found | more)


def commit_markers(bootstrap: str, transactional_id: str, topic: str, *metadata: str) -> None:
    """Commit markers as a sink does, one for each partition of a topic."""
    kind = OffsetCommitRequest.Topic
    partitions = [
        kind.Partition(partition_index=index, committed_offset=3, committed_metadata=each)
        for index, each in enumerate(metadata)
    ]
    group = SINK_PREFIX + transactional_id
    request = OffsetCommitRequest(group_id=group, topics=[kind(name=topic, partitions=partitions)])
    with Client(bootstrap) as client:
        response = client.coordinator(group).send(request, OffsetCommitResponse, most=_NAMED)
    assert {each.error_code for each in response.topics[0].partitions} == {0}
