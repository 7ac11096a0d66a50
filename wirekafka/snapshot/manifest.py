"""The description of a snapshot in its directory: its instant, its node, and where its logs end."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from wirekafka.log.files import Disk, ReadableDisk
from wirekafka.snapshot.instant import Instant

MANIFEST = "wirekafka-snapshot.json"
"""Its file in the directory of a snapshot, where Kafka ignores all but directories."""
_VERSION = 1


class UnusableSnapshot(Exception):
    """A directory that is no snapshot, or no whole one; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """The offsets of a log at the instant; `end_offset` is -1 where only the files say it."""

    topic: str
    partition: int
    topic_id: str
    start_offset: int
    end_offset: int
    high_watermark: int
    size_bytes: int


_LOG_FIELDS = [each.name for each in fields(LogExtent)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A snapshot's description; `directories` counts the log directories of its node."""

    at_ms: int
    cluster_id: str
    node_id: int
    directories: int
    held_us: int
    logs: list[LogExtent]

    @property
    def size_bytes(self) -> int:
        """The length of all log files, shared or not."""
        return sum(log.size_bytes for log in self.logs)

    def text(self) -> bytes:
        """The file's content."""
        described = {
            "version": _VERSION,
            "at_ms": self.at_ms,
            "cluster_id": self.cluster_id,
            "node_id": self.node_id,
            "directories": self.directories,
            "held_us": self.held_us,
            # Not by `asdict`, which takes half a second for thousands of logs.
            "logs": [{name: getattr(log, name) for name in _LOG_FIELDS} for log in self.logs],
        }
        return json.dumps(described, indent=1).encode()


def manifest_of(instant: Instant) -> Manifest:
    """Describe a snapshot of an instant."""
    return Manifest(
        at_ms=instant.at_ms,
        cluster_id=instant.cluster_id,
        node_id=instant.node_id,
        directories=len(instant.directories),
        held_us=instant.held_us,
        logs=[
            LogExtent(
                topic=log.topic,
                partition=log.partition,
                topic_id=log.topic_id.hex(),
                start_offset=log.start_offset,
                end_offset=log.end_offset,
                high_watermark=log.high_watermark,
                size_bytes=log.size_bytes,
            )
            for directory in instant.directories
            for log in directory.all_logs()
        ],
    )


def manifest_from(text: bytes, path: str) -> Manifest:
    """The inverse of `Manifest.text`. Raises UnusableSnapshot."""
    try:
        described: dict[str, Any] = json.loads(text)
        version = described.pop("version")
        logs = [LogExtent(**log) for log in described.pop("logs")]
        manifest = Manifest(logs=logs, **described)
    except (ValueError, KeyError, TypeError) as error:
        raise UnusableSnapshot(f"{path} cannot be read: {error!r}") from None
    if version != _VERSION:
        raise UnusableSnapshot(f"{path} has version {version}, not {_VERSION}")
    return manifest


def read_manifest(disk: Disk | ReadableDisk, directory: str) -> Manifest:
    """The description of a snapshot in a directory. Raises UnusableSnapshot."""
    path = f"{directory}/{MANIFEST}"
    try:
        return manifest_from(disk.read(path), path)
    except OSError as error:
        raise UnusableSnapshot(f"{directory} is no snapshot: {error.strerror}: {path}") from None
