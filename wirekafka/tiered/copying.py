"""Which closed segments of a log are copied to remote storage, and what belongs to their copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event

from wirekafka.codec.batch import Buffer
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.epochs import EpochEntry, encode_epochs
from wirekafka.log.files import Disk
from wirekafka.log.log import Log
from wirekafka.log.retention import local_limits
from wirekafka.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment
from wirekafka.tiered.layout import IndexKind, Layout, SegmentFiles
from wirekafka.tiered.remote_segment import RemoteSegment, TieredPartition
from wirekafka.tiered.store import StoreError

_AS_LOCAL = -1
_PIECE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A closed segment of a log, whose records end where the next segment begins."""

    segment: Segment
    end_offset: int


def candidates(
    log: Log, config: TopicConfig, from_offset: int, last_stable_offset: int, now_ms: int
) -> list[Candidate]:
    """The segments to copy now, oldest first.

    Closed segments whose records all lie below the last stable offset, from an offset on that has
    not been copied, up to the first one for which it is too early.
    """
    segments = list(log.segments)
    newer_bytes = sum(segment.size_bytes for segment in segments)
    found = []
    for number, segment in enumerate(segments[:-1]):
        newer_bytes -= segment.size_bytes
        end_offset = segments[number + 1].base_offset
        if end_offset <= from_offset or segment.size_bytes == 0:
            continue
        if end_offset > last_stable_offset:
            break
        if not _is_due(segment, config, newer_bytes, now_ms):
            break
        found.append(Candidate(segment, end_offset))
    return found


def epochs_between(
    entries: Sequence[EpochEntry], start_offset: int, end_offset: int
) -> tuple[EpochEntry, ...]:
    """The leader epochs of an offset range, the first of which begins with the range."""
    found: list[EpochEntry] = []
    for entry in entries:
        if entry.start_offset >= end_offset:
            break
        if entry.start_offset <= start_offset:
            found = [EpochEntry(entry.epoch, start_offset)]
        else:
            found.append(entry)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """The copy of one segment, which `run` makes in any thread, by a disk of its own."""

    segment: RemoteSegment
    paths: dict[IndexKind, str]
    log_path: str
    contents: dict[IndexKind, bytes]

    @classmethod
    def of(
        cls,
        log: Log,
        candidate: Candidate,
        partition: TieredPartition,
        *,
        segment_id: bytes,
        broker_id: int,
        now_ms: int,
    ) -> CopyJob:
        """Describe the copy of a segment. Raises KafkaError if its epochs are unknown."""
        segment, end_offset = candidate.segment, candidate.end_offset
        entries = log.epochs.entries
        paths = {
            IndexKind.OFFSET: segment.path(INDEX_SUFFIX),
            IndexKind.TIMESTAMP: segment.path(TIME_INDEX_SUFFIX),
        }
        has_aborted = segment.aborted is not None and bool(segment.aborted.entries)
        if has_aborted:
            paths[IndexKind.TRANSACTION] = segment.path(TRANSACTION_INDEX_SUFFIX)
        return cls(
            segment=RemoteSegment(
                partition=partition,
                id=segment_id,
                start_offset=segment.base_offset,
                end_offset=end_offset,
                max_timestamp_ms=segment.largest().timestamp,
                broker_id=broker_id,
                event_ms=now_ms,
                size_bytes=segment.size_bytes,
                epochs=epochs_between(entries, segment.base_offset, end_offset),
                has_no_transactions=not has_aborted,
            ),
            paths=paths,
            log_path=segment.file.path,
            contents={
                IndexKind.LEADER_EPOCH: encode_epochs(
                    [entry for entry in entries if entry.start_offset < end_offset]
                ),
                IndexKind.PRODUCER_SNAPSHOT: log.producer_snapshot(end_offset),
            },
        )

    def run(self, layout: Layout, disk: Disk, given_up: Event) -> bytes | None:
        """Copy the segment; returns its custom metadata. Raises StoreError, OSError.

        If `given_up` is set meanwhile, the copy ends early and deletes what it has stored: its
        caller, who set the event, may have deleted the segment before.
        """
        try:
            return self._copy(layout, disk, given_up)
        finally:
            if given_up.is_set():
                layout.delete(self.segment)

    def _copy(self, layout: Layout, disk: Disk, given_up: Event) -> bytes | None:
        size_bytes = self.segment.size_bytes

        def pieces() -> Iterator[Buffer]:
            file = disk.open(self.log_path, size_bytes)
            try:
                for at in range(0, size_bytes, _PIECE_BYTES):
                    if given_up.is_set():
                        raise StoreError("the copy was given up")
                    yield file.pread(min(_PIECE_BYTES, size_bytes - at), at)
            finally:
                file.close()

        indexes = {kind: disk.read(path) for kind, path in self.paths.items()}
        return layout.copy(
            self.segment,
            SegmentFiles(log=pieces, size_bytes=size_bytes, indexes=indexes | self.contents),
        )


def _is_due(segment: Segment, config: TopicConfig, newer_bytes: int, now_ms: int) -> bool:
    """Whether a segment is as old, or as far behind, as the copy lag wants (KIP-1241)."""
    limit_bytes, limit_ms = local_limits(config)
    lag_bytes, lag_ms = config.remote_copy_lag_bytes, config.remote_copy_lag_ms
    if lag_bytes == 0 or lag_ms == 0:
        return True
    if lag_bytes == _AS_LOCAL:
        lag_bytes = limit_bytes
    if lag_ms == _AS_LOCAL:
        lag_ms = limit_ms
    age_ms = now_ms - segment.largest().timestamp
    if lag_ms >= 0 and (age_ms < 0 or age_ms >= lag_ms):
        return True
    return 0 <= lag_bytes <= newer_bytes
