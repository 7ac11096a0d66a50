"""Finds records by their timestamps, for ListOffsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wirekafka.codec.batch import BatchHeader
from wirekafka.codec.record import decode_records
from wirekafka.log.segment import Segment


class TimestampOffset(NamedTuple):
    """A record found by its timestamp, in ms; leader epoch -1 when none is known."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """The first record with that timestamp or a later one. Raises BadBatch, OSError."""
    for segment in segments:
        if segment.largest().timestamp < timestamp:
            continue
        entry = segment.time_index.before(timestamp)
        from_offset = max(start_offset, segment.base_offset if entry is None else entry.offset)
        for position, header in segment.headers(segment.index.position_before(from_offset)):
            if header.max_timestamp >= timestamp and header.end_offset > start_offset:
                found = _in_batch(segment, position, header, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def newest(segments: Sequence[Segment]) -> TimestampOffset | None:
    """The first record that has the largest timestamp, -1 included. Raises BadBatch, OSError."""
    latest: Segment | None = None
    for segment in segments:
        if latest is None or segment.largest().timestamp > latest.largest().timestamp:
            latest = segment
    if latest is None:
        return None
    timestamp, last_offset = latest.largest()
    found = latest.find(last_offset)
    return None if found is None else _in_batch(latest, *found, timestamp, 0)


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    batch = segment.file.pread(header.size_bytes, position)
    for record in decode_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None
