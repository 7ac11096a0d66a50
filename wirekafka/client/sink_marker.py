"""The marker of a Spark sink's last batch: metadata of an offset, committed with the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from wirekafka.client.transactions import IdAndEpoch, OffsetAndMetadata, TransactionalProducer

SINK_PREFIX = "wirekafka-sink-"
"""Of the groups in which sinks commit their markers; the transactional id follows."""
PARTITION = 0
"""The partition of a topic that has the marker."""
_LONGEST_CHECKPOINT = 2_000
"""Brokers refuse texts of more than `offset.metadata.max.bytes`, by default 4096."""


_NUMBERS = ("batch", "records", "total_records", "producer_id", "producer_epoch", "at_ms")
_TEXTS = ("query", "run", "driver")


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

    @classmethod
    def parsed(cls, text: str | None) -> Self | None:
        """The marker in an offset's metadata, to which a later release may have added fields.

        None if it is something else: any client may commit offsets of the group.
        """
        try:
            found = json.loads(text or "null")
        except ValueError:
            return None
        if not isinstance(found, dict):
            return None
        numbers = [found.get(name) for name in _NUMBERS]
        texts = [found.get(name) for name in _TEXTS]
        checkpoint = found.get("checkpoint")
        is_marker = (
            all(type(each) is int for each in numbers)
            and all(isinstance(each, str) for each in texts)
            and (checkpoint is None or isinstance(checkpoint, str))
        )
        if not is_marker:
            return None
        known: dict[str, Any] = {name: found.get(name) for name in cls.__dataclass_fields__}
        return cls(**known)

    def to_json(self) -> str:
        """The metadata of the offset."""
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
    return SINK_PREFIX + transactional_id


def find_marker(producer: TransactionalProducer) -> FoundMarker:
    """The marker of the last transaction of a transactional id that has ended. Raises CliError."""
    offsets = producer.committed_offsets(group_of(producer.transactional_id))
    return newest({topic: each for (topic, _), each in offsets.items()})


def newest(offsets: Mapping[str, OffsetAndMetadata]) -> FoundMarker:
    """The newest marker among the offsets of topics, whose texts may be something else."""
    found = {
        topic: marker for topic, each in offsets.items() if (marker := Marker.parsed(each.metadata))
    }
    marker = max(found.values(), key=lambda each: each.at_ms, default=None)
    return FoundMarker(marker, {topic: offsets[topic].offset for topic in found})
