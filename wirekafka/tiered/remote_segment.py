"""A log segment in remote storage, and the states of its life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from wirekafka.log.epochs import EpochEntry


class SegmentState(IntEnum):
    """The states of a remote segment, in Kafka's numbers."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3

    def may_become(self, state: SegmentState) -> bool:
        """Whether a segment in this state may get another; the same state again is allowed."""
        return state in _FOLLOWING[self]


_FOLLOWING = {
    SegmentState.COPY_STARTED: (
        SegmentState.COPY_STARTED,
        SegmentState.COPY_FINISHED,
        SegmentState.DELETE_STARTED,
    ),
    SegmentState.COPY_FINISHED: (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED),
    SegmentState.DELETE_STARTED: (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED),
    SegmentState.DELETE_FINISHED: (SegmentState.DELETE_FINISHED,),
}


class TieredPartition(NamedTuple):
    """A partition whose segments go to remote storage; topics of one name differ by their ids."""

    topic: str
    topic_id: bytes
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """One segment in remote storage: its identity, its range, and what is known of its objects."""

    partition: TieredPartition
    id: bytes
    start_offset: int
    end_offset: int
    """The offset after the last record; Kafka's records have the last one."""
    max_timestamp_ms: int
    broker_id: int
    """The broker that copied it, or changed its state last."""
    event_ms: int
    """When it got its present state."""
    size_bytes: int
    epochs: tuple[EpochEntry, ...]
    """The leader epochs of its records; the first one starts at `start_offset`."""
    state: SegmentState = SegmentState.COPY_STARTED
    custom_metadata: bytes | None = None
    """What the object layout stores with the metadata of a segment."""
    has_no_transactions: bool = False
    """Whether it has no aborted transactions, and so no transaction index."""

    def end_of_epoch(self, number: int) -> int:
        """The end of the range that belongs to one of `epochs`, counted from 0."""
        following = number + 1
        if following < len(self.epochs):
            return self.epochs[following].start_offset
        return self.end_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUpdate:
    """The change of a remote segment's state."""

    partition: TieredPartition
    id: bytes
    broker_id: int
    event_ms: int
    state: SegmentState
    custom_metadata: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDeletion:
    """The deletion of a whole partition; `state` is 0 to 2. Kafka reads, but never writes it."""

    partition: TieredPartition
    broker_id: int
    event_ms: int
    state: int
