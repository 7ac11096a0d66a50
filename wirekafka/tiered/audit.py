"""Compares the objects in a store with the metadata of the segments that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wirekafka.tiered.layout import Layout
from wirekafka.tiered.metadata_record import MetadataRecord
from wirekafka.tiered.remote_segment import (
    PartitionDeletion,
    RemoteSegment,
    SegmentState,
    TieredPartition,
)
from wirekafka.tiered.segment_states import SegmentStates
from wirekafka.tiered.store import StoredObject

Tier = Mapping[TieredPartition, SegmentStates]


@dataclass(slots=True)
class TierAudit:
    """What is wrong with a tier."""

    holes: list[tuple[RemoteSegment, str]] = field(default_factory=list)
    """Segments that are to be readable, each with the key of an object that is missing."""
    orphans: list[StoredObject] = field(default_factory=list)
    """Objects of no segment."""
    unfinished: list[RemoteSegment] = field(default_factory=list)
    """Segments whose copy or deletion has begun and not ended."""


def folded(records: Iterable[MetadataRecord]) -> dict[TieredPartition, SegmentStates]:
    """The segments of each partition, from the records of the metadata topic in order."""
    tier: dict[TieredPartition, SegmentStates] = {}
    for record in records:
        if isinstance(record, PartitionDeletion):
            continue
        states = tier.setdefault(record.partition, SegmentStates())
        if isinstance(record, RemoteSegment):
            states.add(record)
        else:
            states.update(record)
    return {partition: states for partition, states in tier.items() if len(states)}


def audited(tier: Tier, objects: Iterable[StoredObject], layout: Layout) -> TierAudit:
    """Compare. The objects should be listed before the records are read.

    A record is written before the first object of a segment, so that each object which is listed
    has one, unless it is an orphan.
    """
    audit = TierAudit()
    listed = {each.key: each for each in objects}
    for states in tier.values():
        for segment in states:
            keys = layout.keys(segment)
            if segment.state is SegmentState.COPY_FINISHED:
                audit.holes += [(segment, key) for key in keys if key not in listed]
            else:
                audit.unfinished.append(segment)
            for key in layout.keys_if_any(segment):
                listed.pop(key, None)
    audit.orphans = sorted(listed.values())
    return audit
