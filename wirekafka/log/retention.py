"""Which old segments are deleted: by time, by size, below the log start, or copied elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.segment import Segment

_AS_TOTAL = -2


@dataclass(slots=True, kw_only=True)
class Horizon:
    """The time and the offsets that retention depends on.

    Nothing at or above the high watermark is ever deleted.
    """

    now_ms: int
    start_offset: int
    high_watermark: int
    end_offset: int
    held_from: int | None = None
    """From here on neither time nor size deletes anything; None if nothing is held."""
    readable_end_offset: int | None = None
    """Up to where a tiered log is readable in remote storage, or -1; None if it is not tiered."""


class RemotePart:
    """The range of a tiered log that has been copied to remote storage."""

    __slots__ = ("copied_end_offset", "readable_end_offset", "start_offset")

    def __init__(self, start_offset: int):
        self.start_offset = start_offset
        """The log start offset: no record below it is in the log, remote or not."""
        self.copied_end_offset = -1
        """The end of all that was ever copied; -1 if nothing was, or if it is not known yet."""
        self.readable_end_offset = -1
        """Up to where what is here is readable in remote storage too, so that it may go; or -1."""


def expired(segments: Sequence[Segment], config: TopicConfig, horizon: Horizon) -> int:
    """How many segments, counted from the oldest, Kafka would delete.

    The active segment counts too when it holds something: the log then rolls first.
    """
    deletable = _deletable(segments, horizon)
    count = _below_start(segments, deletable, horizon.start_offset)
    # Apache Kafka applies the local limits to a tiered topic without a cleanup policy as well.
    if config.is_deleted or (config.is_tiered and not config.remote_log_copy_disable):
        limit_bytes, limit_ms = local_limits(config)
        deletable = _released(segments, deletable, horizon)
        count = _by_size(segments[:deletable], count, limit_bytes, segments)
        count = _by_time(segments[:deletable], count, limit_ms, horizon.now_ms)
    return count


def expendable(
    segments: Sequence[Segment], config: TopicConfig, horizon: Horizon, readable_end_offset: int
) -> int:
    """How many of the `expired` segments of a tiered log need not stay here.

    They can be read in remote storage, or lie below the log start offset, or the topic no
    longer copies.
    """
    count = expired(segments, config, horizon)
    if config.remote_log_copy_disable:
        return count
    while count and end_of(segments, count - 1, horizon.end_offset) > max(
        readable_end_offset, horizon.start_offset
    ):
        count -= 1
    return count


def spare(segments: Sequence[Segment], horizon: Horizon) -> int:
    """How many segments, counted from the oldest, may be deleted before they expire.

    They are committed, and not held or below the log start offset; of a tiered log they are
    readable in remote storage. The active segment counts as in `expired`.
    """
    deletable = _deletable(segments, horizon)
    below_start = _below_start(segments, deletable, horizon.start_offset)
    count = max(_released(segments, deletable, horizon), below_start)
    readable_end_offset = horizon.readable_end_offset
    if readable_end_offset is None:
        return count
    end_offset = max(readable_end_offset, horizon.start_offset)
    while count and end_of(segments, count - 1, horizon.end_offset) > end_offset:
        count -= 1
    return count


def age_from_ms(segment: Segment) -> int:
    """Since when the newest record of a segment is there: its timestamp, or the file's time."""
    timestamp = segment.largest().timestamp
    return timestamp if timestamp >= 0 else segment.created_ms


def local_limits(config: TopicConfig) -> tuple[int, int]:
    """How many bytes, and how many ms, a log keeps on its disk; -1 for no limit.

    A tiered topic that still copies has limits of its own; -2 makes them equal to the others.
    """
    if not config.is_tiered or config.remote_log_copy_disable:
        return config.retention_bytes, config.retention_ms
    local_bytes, local_ms = config.local_retention_bytes, config.local_retention_ms
    return (
        config.retention_bytes if local_bytes == _AS_TOTAL else local_bytes,
        config.retention_ms if local_ms == _AS_TOTAL else local_ms,
    )


def end_of(segments: Sequence[Segment], number: int, end_offset: int) -> int:
    """The end of a segment's offset range: the next one's base offset, or the log end."""
    return segments[number + 1].base_offset if number + 1 < len(segments) else end_offset


def _deletable(segments: Sequence[Segment], horizon: Horizon) -> int:
    count = 0
    while count < len(segments):
        if end_of(segments, count, horizon.end_offset) > horizon.high_watermark:
            break
        if count == len(segments) - 1 and segments[count].size_bytes == 0:
            break
        count += 1
    return count


def _released(segments: Sequence[Segment], deletable: int, horizon: Horizon) -> int:
    held_from = horizon.held_from
    if held_from is None:
        return deletable
    while deletable and end_of(segments, deletable - 1, horizon.end_offset) > held_from:
        deletable -= 1
    return deletable


def _below_start(segments: Sequence[Segment], deletable: int, start_offset: int) -> int:
    # Kafka spares the active segment here, even when all its records were deleted.
    count = 0
    while count < min(deletable, len(segments) - 1):
        if segments[count + 1].base_offset > start_offset:
            break
        count += 1
    return count


def _by_size(
    deletable: Sequence[Segment], count: int, limit_bytes: int, segments: Sequence[Segment]
) -> int:
    if limit_bytes < 0:
        return count
    surplus_bytes = sum(segment.size_bytes for segment in segments[count:]) - limit_bytes
    while count < len(deletable) and surplus_bytes - deletable[count].size_bytes >= 0:
        surplus_bytes -= deletable[count].size_bytes
        count += 1
    return count


def _by_time(deletable: Sequence[Segment], count: int, limit_ms: int, now_ms: int) -> int:
    if limit_ms < 0:
        return count
    while count < len(deletable) and now_ms - age_from_ms(deletable[count]) > limit_ms:
        count += 1
    return count
