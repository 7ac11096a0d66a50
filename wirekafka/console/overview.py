"""The first page: who is behind, what fails, what grows."""

from __future__ import annotations

from wirekafka.apis.metadata import MetadataResponse
from wirekafka.console.page import Page, View, Visit

LINK = ("Overview", "/", "o")


def show(visit: Visit) -> View:
    """What an operator asks first."""
    metadata = visit.client.metadata()
    snapshot = visit.source.snapshot()
    return View(
        "overview.html",
        {
            "title": "Overview",
            "snapshot": snapshot,
            "insight": visit.source.insight(),
            "under_replicated": under_replicated(metadata),
            "topics": len(metadata.topics),
            "partitions": sum(len(topic.partitions) for topic in metadata.topics),
            "brokers": len(metadata.brokers),
        },
    )


def under_replicated(metadata: MetadataResponse) -> list[tuple[str, int, list[int], list[int]]]:
    """(topic, partition, replicas, in sync) of partitions with fewer in sync, or no leader."""
    return [
        (topic.name or "", each.partition_index, each.replica_nodes, each.isr_nodes)
        for topic in metadata.topics
        for each in topic.partitions
        if len(each.isr_nodes) < len(each.replica_nodes) or each.leader_id < 0
    ]


ENTRIES = (Page("/", show),)
