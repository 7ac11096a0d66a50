"""The marker of a sink's last batch: the text of an offset that is committed with the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wirekafka.client.transactions import IdAndEpoch, OffsetAndMetadata, TransactionalProducer

PARTITION = 0
"""The partition of a topic that has the marker."""
_LONGEST_CHECKPOINT = 2_000
"""Brokers refuse texts of more than `offset.metadata.max.bytes`, by default 4096."""


@dataclass(frozen=True)
class Marker:
    """The last batch that is in Kafka as a whole, and which run of which query has written it."""

    query: str
    run: str
    batch: int
    records: int
    """Of the batch."""
    total_records: int
    """Of all batches since the marker was new."""
    producer_id: int
    producer_epoch: int
    at_ms: int
    driver: str
    """The host and the process that started the batch."""
    checkpoint: str | None = None

    @property
    def producer(self) -> IdAndEpoch:
        """The producer of the batch's transaction."""
        return IdAndEpoch(self.producer_id, self.producer_epoch)

    def to_json(self) -> str:
        """The text for Kafka."""
        fields = asdict(self)
        if len(self.checkpoint or "") > _LONGEST_CHECKPOINT:
            fields["checkpoint"] = None
        return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True)
class FoundMarker:
    """The newest marker of a group, and the offset beside the marker in each topic."""

    marker: Marker | None
    offsets: Mapping[str, int]


def group_of(transactional_id: str) -> str:
    """The group whose offsets carry the markers of a transactional id."""
    return f"wirekafka-sink-{transactional_id}"


def find_marker(producer: TransactionalProducer) -> FoundMarker:
    """The marker of the last transaction of a transactional id that has ended. Raises CliError."""
    offsets = producer.committed_offsets(group_of(producer.transactional_id))
    return newest({topic: each for (topic, _), each in offsets.items()})


def newest(offsets: Mapping[str, OffsetAndMetadata]) -> FoundMarker:
    """The newest marker among the offsets of topics, whose texts may be something else."""
    found = {topic: marker for topic, each in offsets.items() if (marker := _parsed(each))}
    marker = max(found.values(), key=lambda each: each.at_ms, default=None)
    return FoundMarker(marker, {topic: offsets[topic].offset for topic in found})


def _parsed(offset: OffsetAndMetadata) -> Marker | None:
    """The marker beside an offset, which a later release may write with more fields."""
    try:
        fields: Any = json.loads(offset.metadata)
        known = {name: fields[name] for name in Marker.__dataclass_fields__ if name in fields}
        return Marker(**known)
    except (ValueError, TypeError):
        return None
