"""Which remote segments are deleted: by time, by size, below the log start, of lost leaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.epochs import EpochEntry
from wirekafka.tiered.remote_segment import RemoteSegment, SegmentState
from wirekafka.tiered.segment_states import SegmentStates


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLog:
    """What remote retention has to know of a log that its leader has."""

    epochs: Sequence[EpochEntry]
    start_offset: int
    """The log start offset."""
    end_offset: int
    newer_bytes: int
    """The size of the local segments that have not been copied."""
    held_from: int | None = None
    """From here on neither time nor size deletes anything; None if nothing is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteExpiry:
    """What is to be deleted, and the log start offset that is set before."""

    start_offset: int
    segments: list[RemoteSegment]


def expired(states: SegmentStates, config: TopicConfig, log: LocalLog, now_ms: int) -> RemoteExpiry:
    """The segments to delete now, oldest first.

    Deletions that were begun and copies that were given up are repeated elsewhere.
    """
    start_offset = log.start_offset
    owned = states.in_lineage(log.epochs, log.end_offset)
    sizes = _sizes_once(owned)
    surplus_bytes = -1
    if config.is_deleted and config.retention_bytes >= 0:
        total_bytes = sum(sizes) + log.newer_bytes
        surplus_bytes = total_bytes - config.retention_bytes
    for segment, size_bytes in zip(owned, sizes, strict=True):
        is_big = surplus_bytes > 0 and surplus_bytes >= size_bytes
        is_old = (
            config.is_deleted
            and config.retention_ms >= 0
            and segment.max_timestamp_ms < now_ms - config.retention_ms
        )
        is_held = log.held_from is not None and segment.end_offset > log.held_from
        if not (((is_big or is_old) and not is_held) or segment.end_offset <= start_offset):
            break
        surplus_bytes -= size_bytes
        start_offset = max(start_offset, segment.end_offset)
    earliest = log.epochs[0].epoch if log.epochs else -1
    deleted = [
        segment
        for segment in states
        if segment.state is SegmentState.COPY_FINISHED
        and (
            segment.end_offset <= start_offset
            or all(epoch < earliest for epoch, _ in segment.epochs)
        )
    ]
    deleted.sort(key=lambda segment: segment.start_offset)
    return RemoteExpiry(start_offset=start_offset, segments=deleted)


def _sizes_once(segments: Sequence[RemoteSegment]) -> list[int]:
    """The size of each segment, 0 for another copy of records that segments in front of it have.

    Leaders that follow one another may copy the same records: counted twice, they would let
    records be deleted that are within the limit.
    """
    sizes, end_offset = [], -1
    for segment in segments:
        sizes.append(segment.size_bytes if segment.end_offset > end_offset else 0)
        end_offset = max(end_offset, segment.end_offset)
    return sizes
