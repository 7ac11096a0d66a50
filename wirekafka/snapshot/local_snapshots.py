"""Snapshots in directories of this machine: found, checked and removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wirekafka.log import scan
from wirekafka.log.files import Disk
from wirekafka.log.producer_snapshots import offsets_in
from wirekafka.log.scan import BadBatch
from wirekafka.log.segment import LOG_SUFFIX, file_name
from wirekafka.snapshot.instant import UNKNOWN_OFFSET
from wirekafka.snapshot.manifest import (
    MANIFEST,
    LogExtent,
    Manifest,
    UnusableSnapshot,
    read_manifest,
)
from wirekafka.snapshot.target import INCOMPLETE_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSnapshot:
    """A snapshot in a directory."""

    path: str
    manifest: Manifest

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.rpartition("/")[2]


def snapshots_in(disk: Disk, path: str) -> list[LocalSnapshot]:
    """The snapshot in a directory, or else the snapshots in its subdirectories, oldest first.

    Incomplete ones are left out. Raises UnusableSnapshot if there is no such directory.
    """
    path = path.rstrip("/")
    if is_snapshot(disk, path):
        return [LocalSnapshot(path=path, manifest=read_manifest(disk, path))]
    try:
        entries = disk.list_directory(path)
    except OSError as error:
        raise UnusableSnapshot(f"{path} cannot be read: {error.strerror}") from None
    found = [
        LocalSnapshot(path=below, manifest=read_manifest(disk, below))
        for below in (f"{path}/{entry.name}" for entry in entries if entry.is_directory)
        if not below.endswith(INCOMPLETE_SUFFIX) and is_snapshot(disk, below)
    ]
    return sorted(found, key=lambda each: each.manifest.at_ms)


def is_snapshot(disk: Disk, path: str) -> bool:
    """Whether a directory is a snapshot, or the data of a node that was started on it."""
    return disk.exists(f"{path}/{MANIFEST}")


def is_unchanged(disk: Disk, snapshot: LocalSnapshot) -> bool:
    """Whether the logs have the sizes of the manifest; a node that starts appends at once."""
    for log in snapshot.manifest.logs:
        entries = [
            entry
            for path in _places_of(disk, snapshot, log)
            for entry in disk.list_directory(path)
            if entry.name.endswith(LOG_SUFFIX)
        ]
        if sum(entry.size_bytes for entry in entries) != log.size_bytes:
            return False
    return True


def problems(disk: Disk, snapshot: LocalSnapshot) -> Iterator[str]:
    """Read every batch of a snapshot; yields what is damaged or missing."""
    for log in snapshot.manifest.logs:
        name = f"{log.topic}-{log.partition}"
        paths = _places_of(disk, snapshot, log)
        if not paths:
            yield f"{snapshot.name}: {name} is missing"
            continue
        try:
            end_offset, size_bytes = _checked(disk, paths[0])
        except BadBatch as error:
            yield f"{snapshot.name}: {name}: {error}"
            continue
        yield from _differences(snapshot, log, end_offset, size_bytes)


def _places_of(disk: Disk, snapshot: LocalSnapshot, log: LogExtent) -> list[str]:
    """The directories with the files of a log; none if it is missing."""
    above = [snapshot.path]
    if snapshot.manifest.directories > 1:
        above = [f"{snapshot.path}/{number}" for number in range(snapshot.manifest.directories)]
    paths = [f"{each}/{log.topic}-{log.partition}" for each in above]
    return [path for path in paths if disk.exists(path)]


def _differences(
    snapshot: LocalSnapshot, log: LogExtent, end_offset: int, size_bytes: int
) -> Iterator[str]:
    name = f"{log.topic}-{log.partition}"
    if size_bytes != log.size_bytes:
        yield f"{snapshot.name}: {name} has {size_bytes} bytes, and had {log.size_bytes}"
    elif log.end_offset != UNKNOWN_OFFSET and end_offset > log.end_offset:
        yield f"{snapshot.name}: {name} ends at {end_offset}, and ended at {log.end_offset}"
    elif log.high_watermark > max(end_offset, log.end_offset):
        yield f"{snapshot.name}: {name} ends at {end_offset}, before {log.high_watermark}"


def _checked(disk: Disk, path: str) -> tuple[int, int]:
    """The end of the last batch of a log, and the length of its files. Raises BadBatch."""
    sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(path)}
    end_offset = size_bytes = 0
    for base_offset in sorted(offsets_in(sizes, LOG_SUFFIX)):
        name = file_name(base_offset, LOG_SUFFIX)
        end_offset = max(end_offset, base_offset)
        file = disk.open(f"{path}/{name}", sizes[name])
        for _, header, _ in scan.checked(file, 0, file.size_bytes):
            end_offset = header.end_offset
        file.close()
        size_bytes += file.size_bytes
    return end_offset, size_bytes
