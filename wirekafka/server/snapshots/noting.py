"""Notes the lengths of all logs of a broker within one turn of its event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


_LogState = tuple[Log, int, int, Segment, int]
"""A log at the instant: its start, its end, and the segment it ended in, of that length. A plain
tuple of references: thousands are noted in a millisecond, and what cannot change is read later."""


class _DirectoryState(NamedTuple):
    directory: LogDirectory
    cleaner_offsets: dict[tuple[str, int], int]
    topic_ids: dict[tuple[str, int], bytes]
    logs: list[_LogState]
    metadata: list[_LogState]


class Noted:
    """The state of a broker's logs at the turn of the event loop in which it is constructed.

    Raises Unavailable.
    """

    def __init__(self, broker: Broker):
        began_ns = broker.clock.work_ns()
        for directory in broker.directories:
            _require_service(directory)
        self._broker = broker
        self._states = [
            _DirectoryState(
                directory=directory,
                cleaner_offsets=dict(directory.cleaner_offsets),
                topic_ids=dict(directory.topic_ids),
                logs=_states(directory.logs.values()),
                metadata=_states(filter(None, [directory.metadata_log])),
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
            for each in state.metadata:
                end_offset = each[2]
                yield log_line(_noted(each, METADATA_TOPIC_ID, end_offset), is_metadata=True)
            for each in state.logs:
                key = each[0].topic, each[0].partition
                partition = self._broker.partitions.get(key)
                high_watermark = 0 if partition is None else partition.high_watermark
                yield log_line(_noted(each, state.topic_ids.get(key, b""), high_watermark))
        yield end_line()


def _states(logs: Iterable[Log]) -> list[_LogState]:
    return [
        (
            log,
            log.start_offset,
            log.end_offset,
            active := log.segments.active,
            active.file.size_bytes,
        )
        for log in logs
    ]


def _noted(state: _LogState, topic_id: bytes, high_watermark: int) -> NotedLog:
    """A log with its segments: sealed ones stay as they are while files are kept.

    A later high watermark is no harm: what is below it and in the log is committed.
    """
    log, start_offset, end_offset, active, active_bytes = state
    sealed = [
        SegmentLength(each.base_offset, each.size_bytes)
        for each in log.segments
        if each.base_offset < active.base_offset
    ]
    return NotedLog(
        topic=log.topic,
        partition=log.partition,
        topic_id=topic_id,
        path=log.directory,
        start_offset=start_offset if log.remote is None else log.first_offset,
        end_offset=end_offset,
        high_watermark=min(high_watermark, end_offset),
        segments=[*sealed, SegmentLength(active.base_offset, active_bytes)],
    )


def _require_service(directory: LogDirectory) -> None:
    if directory.failure is not None:
        raise Unavailable(f"{directory.path} has failed: {directory.failure}")
    for (topic, partition), reason in directory.offline.items():
        raise Unavailable(f"{topic}-{partition} is offline: {reason}")
