"""Which part of a log can be compacted, whether that is due, and the cleaning job for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.compaction.cleaner import CleaningJob, Piece
from wirekafka.log.compaction.cleaner_batches import LastRecord
from wirekafka.log.log import Log
from wirekafka.log.segment import Segment

LARGEST_MAP_BYTES = (1 << 31) - 1


class Cleanable(NamedTuple):
    """The dirty offset range of a log, half-open, and the sizes that give its dirty ratio."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The share of the bytes that has not been cleaned yet."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


class CleaningProgress(NamedTuple):
    """The offsets up to which a log is cleaned (None: never) and stable, and the current time."""

    cleaned_offset: int | None
    last_stable_offset: int
    now_ms: int


def cleanable(log: Log, progress: CleaningProgress) -> Cleanable | None:
    """The part of a log that can be cleaned now, None if there is none. Raises BadBatch, OSError.

    It excludes the active segment, everything at or above the last stable offset, and segments
    younger than `min.compaction.lag.ms`.
    """
    first_dirty_offset = progress.cleaned_offset
    if first_dirty_offset is None or not (log.start_offset <= first_dirty_offset <= log.end_offset):
        first_dirty_offset = log.start_offset
    segments = log.segments
    number = segments.number_of(first_dirty_offset)
    end = _first_uncleanable(log, number, progress)
    dirty = segments[number:end]
    if not dirty:
        return None
    lag_ms = log.config.max_compaction_lag_ms
    return Cleanable(
        first_dirty_offset,
        segments[end].base_offset,
        sum(segment.size_bytes for segment in segments[:number]),
        sum(segment.size_bytes for segment in dirty),
        _is_overdue(dirty, progress.now_ms - lag_ms),
    )


def is_due(part: Cleanable, log: Log) -> bool:
    """Whether a log is dirty enough to be cleaned, or `max.compaction.lag.ms` has passed."""
    if not part.dirty_bytes:
        return False
    return part.is_overdue or part.ratio > log.config.min_cleanable_dirty_ratio


def job_for(log: Log, part: Cleanable, config: BrokerConfig, now_ms: int) -> CleaningJob:
    """The job that cleans a part of a log, here or in another process. Raises KafkaError."""
    segments = log.segments
    end = segments.number_of(part.end_offset)
    last_records = {
        producer.producer_id: LastRecord(
            producer.batches[-1].last_offset if producer.batches else -1, producer.epoch
        )
        for producer in log.producers
    }
    threads = max(config.log_cleaner_threads, 1)
    return CleaningJob(
        directory=log.directory,
        pieces=[_piece(segment) for segment in segments[:end]],
        first_dirty_offset=part.first_dirty_offset,
        end_offset=part.end_offset,
        now_ms=now_ms,
        last_records=last_records,
        aborted=log.aborted_transactions(segments[0].base_offset, part.end_offset),
        delete_retention_ms=log.config.delete_retention_ms,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        map_bytes=min(config.log_cleaner_dedupe_buffer_size // threads, LARGEST_MAP_BYTES),
        load_factor=config.log_cleaner_io_buffer_load_factor,
        bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )


def _first_uncleanable(log: Log, first: int, progress: CleaningProgress) -> int:
    """The number of the first segment that must not be cleaned."""
    segments = log.segments
    end = min(segments.number_of(progress.last_stable_offset), len(segments) - 1)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for number in range(first, end):
            if segments[number].largest().timestamp > progress.now_ms - lag_ms:
                return number
    return end


def _is_overdue(dirty: Sequence[Segment], oldest_ms: int) -> bool:
    if oldest_ms <= 0:
        return False
    for segment in dirty:
        timestamp = _first_timestamp(segment)
        if 0 < timestamp < oldest_ms:
            return True
    return False


def _first_timestamp(segment: Segment) -> int:
    for _, header in segment.headers():
        return header.max_timestamp
    return -1


def _piece(segment: Segment) -> Piece:
    return Piece(
        segment.base_offset,
        segment.size_bytes,
        segment.index.size_bytes,
        segment.time_index.size_bytes,
    )
