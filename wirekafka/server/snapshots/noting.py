"""Notes the lengths of all logs of a broker within one turn of its event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wirekafka.broker import Broker
from wirekafka.log.directories.log_directory import METADATA_TOPIC_ID, LogDirectory
from wirekafka.log.log import Log
from wirekafka.log.segment import Segment
from wirekafka.snapshot.instant import (
    Instant,
    NotedDirectory,
    NotedLog,
    SegmentLength,
    directory_line,
    end_line,
    header_line,
    log_line,
)


class Unavailable(Exception):
    """The broker's logs cannot be part of a snapshot; the message says why."""


class _LogState(NamedTuple):
    """A log at the instant: references only, so that thousands are noted in a millisecond."""

    log: Log
    segments: Sequence[Segment]
    active_bytes: int
    end_offset: int
    start_offset: int


class _DirectoryState(NamedTuple):
    directory: LogDirectory
    cleaner_offsets: dict[tuple[str, int], int]
    topic_ids: dict[tuple[str, int], bytes]
    logs: list[_LogState]
    metadata: _LogState | None


class Noted:
    """The state of a broker's logs at the turn of the event loop in which it is constructed.

    Raises Unavailable.
    """

    def __init__(self, broker: Broker):
        began_ns = broker.clock.work_ns()
        for directory in broker.directories:
            _require_service(directory)
        self._high_watermarks = broker.high_watermarks()
        self._states = [
            _DirectoryState(
                directory=directory,
                cleaner_offsets=dict(directory.cleaner_offsets),
                topic_ids=dict(directory.topic_ids),
                logs=[_state(log) for log in directory.logs.values()],
                metadata=None if directory.metadata_log is None else _state(directory.metadata_log),
            )
            for directory in broker.directories
        ]
        self.instant = Instant(
            cluster_id=broker.cluster_id,
            node_id=broker.node_id,
            broker_epoch=broker.epoch,
            at_ms=broker.clock.now_ms(),
            is_stopped=False,
        )
        self.instant.held_us = (broker.clock.work_ns() - began_ns) // 1000

    def lines(self) -> Iterator[bytes]:
        """The report of the instant, line by line."""
        yield header_line(self.instant)
        for state in self._states:
            directory = state.directory
            identity = directory.identity
            yield directory_line(
                NotedDirectory(
                    path=directory.path,
                    directory_id=b"" if identity is None else identity.directory_id,
                    cleaner_offsets=state.cleaner_offsets,
                )
            )
            if state.metadata is not None:
                metadata = state.metadata
                log = self._noted(metadata, METADATA_TOPIC_ID, metadata.end_offset)
                yield log_line(log, is_metadata=True)
            for each in state.logs:
                key = each.log.topic, each.log.partition
                topic_id = state.topic_ids.get(key, b"")
                high_watermark = self._high_watermarks.get(key, 0)
                yield log_line(self._noted(each, topic_id, high_watermark))
        yield end_line()

    def _noted(self, state: _LogState, topic_id: bytes, high_watermark: int) -> NotedLog:
        # Sealed segments keep their lengths.
        segments = [SegmentLength(each.base_offset, each.size_bytes) for each in state.segments]
        segments[-1] = segments[-1]._replace(size_bytes=state.active_bytes)
        return NotedLog(
            topic=state.log.topic,
            partition=state.log.partition,
            topic_id=topic_id,
            path=state.log.directory,
            start_offset=state.start_offset,
            end_offset=state.end_offset,
            high_watermark=min(high_watermark, state.end_offset),
            segments=segments,
        )


def _state(log: Log) -> _LogState:
    segments = log.segments
    active_bytes = segments.active.file.size_bytes
    return _LogState(log, segments[:], active_bytes, log.end_offset, log.first_offset)


def _require_service(directory: LogDirectory) -> None:
    if directory.failure is not None:
        raise Unavailable(f"{directory.path} has failed: {directory.failure}")
    for (topic, partition), reason in directory.offline.items():
        raise Unavailable(f"{topic}-{partition} is offline: {reason}")
