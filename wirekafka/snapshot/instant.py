"""What belongs to one instant of a node: the lengths and files of all its logs, noted at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wirekafka.log.checkpoints import TopicPartition

UNKNOWN_OFFSET = -1
_LOG, _DIRECTORY, _END = "log", "directory", "end"


class SegmentLength(NamedTuple):
    """The base offset of a segment, and the length of its log file in bytes."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedLog:
    """A log as it was at the instant; the last segment is appended to.

    `end_offset` is UNKNOWN_OFFSET for a node that was stopped cleanly: its files are whole, and the
    length of each belongs to the log.
    """

    topic: str
    partition: int
    topic_id: bytes
    path: str
    start_offset: int
    end_offset: int
    high_watermark: int
    segments: list[SegmentLength]

    @property
    def key(self) -> TopicPartition:
        """The topic and the partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """The name of the log's directory: `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        """The length of all log files."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(slots=True, kw_only=True)
class NotedDirectory:
    """A log directory and its logs; `metadata` is the metadata log, in one of the directories."""

    path: str
    directory_id: bytes
    cleaner_offsets: dict[TopicPartition, int]
    logs: list[NotedLog] = field(default_factory=list)
    metadata: NotedLog | None = None

    def all_logs(self) -> Iterator[NotedLog]:
        """The metadata log first, so that its files are taken soonest."""
        if self.metadata is not None:
            yield self.metadata
        yield from self.logs


@dataclass(slots=True, kw_only=True)
class Instant:
    """A node's log directories at one instant, in the order of `log.dirs`."""

    cluster_id: str
    node_id: int
    broker_epoch: int
    at_ms: int
    is_stopped: bool
    """Whether the node was stopped cleanly, so that all files can be taken as they are."""
    held_us: int = 0
    """How long the node's event loop was held to note the instant."""
    directories: list[NotedDirectory] = field(default_factory=list)


class IncompleteInstant(Exception):
    """The node has ended its report too early, or reports why it has no instant."""


def header_line(instant: Instant) -> bytes:
    """The first line of a report: the instant without its directories."""
    return _line(
        {
            "cluster_id": instant.cluster_id,
            "node_id": instant.node_id,
            "broker_epoch": instant.broker_epoch,
            "at_ms": instant.at_ms,
            "held_us": instant.held_us,
        }
    )


def refusal_line(reason: str) -> bytes:
    """The only line of a report of a node that has no instant to give."""
    return _line({"refusal": reason})


def directory_line(directory: NotedDirectory) -> bytes:
    """A directory without its logs, whose lines follow."""
    cleaned = [[*key, offset] for key, offset in directory.cleaner_offsets.items()]
    return _line(
        {
            "kind": _DIRECTORY,
            "path": directory.path,
            "id": directory.directory_id.hex(),
            "cleaned": cleaned,
        }
    )


def log_line(log: NotedLog, *, is_metadata: bool = False) -> bytes:
    """A log of the directory in the last line before."""
    return _line(
        {
            "kind": _LOG,
            "metadata": is_metadata,
            "topic": log.topic,
            "partition": log.partition,
            "id": log.topic_id.hex(),
            "path": log.path,
            "start": log.start_offset,
            "end": log.end_offset,
            "high_watermark": log.high_watermark,
            "segments": log.segments,
        }
    )


def end_line() -> bytes:
    """The last line of a complete report."""
    return _line({"kind": _END})


def instant_from(lines: Iterable[bytes]) -> Instant:
    """The instant in a report. Raises IncompleteInstant."""
    rest = iter(lines)
    first = json.loads(next(rest, b'{"refusal": "the node has closed the connection"}'))
    if "refusal" in first:
        raise IncompleteInstant(first["refusal"])
    instant = Instant(is_stopped=False, **first)
    for line in rest:
        row = json.loads(line)
        if row["kind"] == _END:
            return instant
        if row["kind"] == _DIRECTORY:
            instant.directories.append(_directory(row))
        elif row["metadata"]:
            instant.directories[-1].metadata = _log(row)
        else:
            instant.directories[-1].logs.append(_log(row))
    raise IncompleteInstant("the node has closed the connection too early")


def _directory(row: dict[str, Any]) -> NotedDirectory:
    return NotedDirectory(
        path=row["path"],
        directory_id=bytes.fromhex(row["id"]),
        cleaner_offsets={(topic, index): offset for topic, index, offset in row["cleaned"]},
    )


def _log(row: dict[str, Any]) -> NotedLog:
    return NotedLog(
        topic=row["topic"],
        partition=row["partition"],
        topic_id=bytes.fromhex(row["id"]),
        path=row["path"],
        start_offset=row["start"],
        end_offset=row["end"],
        high_watermark=row["high_watermark"],
        segments=[SegmentLength(*each) for each in row["segments"]],
    )


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"
