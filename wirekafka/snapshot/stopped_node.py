"""The instant of a node that was stopped cleanly: its last one, as its files have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from wirekafka.log.checkpoints import PARTITION_METADATA, partition_metadata_from
from wirekafka.log.directories.directory_identity import DirectoryIdentity
from wirekafka.log.directories.log_directory import METADATA_LOG, LogDirectory, UnusableDirectory
from wirekafka.log.directories.log_names import log_names
from wirekafka.log.files import Disk
from wirekafka.log.producer_snapshots import offsets_in
from wirekafka.log.segment import LOG_SUFFIX, file_name
from wirekafka.snapshot.instant import (
    UNKNOWN_OFFSET,
    Instant,
    NotedDirectory,
    NotedLog,
    SegmentLength,
)


@contextmanager
def stopped_node(disk: Disk, paths: Sequence[str]) -> Iterator[Instant]:
    """Lock the directories of a stopped node, and note their logs.

    Raises UnusableDirectory, also for a node that runs or was killed.
    """
    with ExitStack() as stack:
        directories = []
        for path in paths:
            if not disk.exists(f"{path}/meta.properties"):
                raise UnusableDirectory(f"{path} is no log directory: it has no meta.properties")
            directory = LogDirectory(disk, path)
            stack.callback(directory.release)
            directories.append(directory)
        identities = [_identity(each) for each in directories]
        if len({(each.cluster_id, each.node_id) for each in identities}) > 1:
            raise UnusableDirectory(f"{', '.join(paths)} belong to several nodes")
        noted = [
            _noted(disk, directory, identity)
            for directory, identity in zip(directories, identities, strict=True)
        ]
        if all(each.metadata is None for each in noted):
            raise UnusableDirectory(
                f"no metadata log in {', '.join(paths)}: name all log directories of the node"
            )
        yield Instant(
            cluster_id=identities[0].cluster_id,
            node_id=identities[0].node_id,
            broker_epoch=max(each.broker_epoch for each in directories),
            at_ms=0,
            is_stopped=True,
            directories=noted,
        )


def _identity(directory: LogDirectory) -> DirectoryIdentity:
    if directory.failure is not None:
        raise UnusableDirectory(f"{directory.path} has failed: {directory.failure}")
    assert directory.identity is not None
    if not directory.is_clean:
        raise UnusableDirectory(
            f"{directory.path} was not closed cleanly: start its node once, and stop it"
        )
    return directory.identity


def _noted(disk: Disk, directory: LogDirectory, identity: DirectoryIdentity) -> NotedDirectory:
    noted = NotedDirectory(
        path=directory.path,
        directory_id=identity.directory_id,
        cleaner_offsets=directory.cleaner_offsets,
    )
    for name in log_names(disk, directory.path):
        log = _noted_log(disk, directory, name)
        if name == METADATA_LOG:
            noted.metadata = log
        else:
            noted.logs.append(log)
    return noted


def _noted_log(disk: Disk, directory: LogDirectory, name: str) -> NotedLog:
    path = f"{directory.path}/{name}"
    sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(path)}
    bases = sorted(offsets_in(sizes, LOG_SUFFIX))
    topic, _, partition = name.rpartition("-")
    key = topic, int(partition)
    topic_id = b""
    if PARTITION_METADATA in sizes:
        topic_id = partition_metadata_from(disk.read(f"{path}/{PARTITION_METADATA}")) or b""
    return NotedLog(
        topic=key[0],
        partition=key[1],
        topic_id=topic_id,
        path=path,
        start_offset=bases[0] if bases else 0,
        end_offset=UNKNOWN_OFFSET,
        high_watermark=directory.high_watermarks.get(key, UNKNOWN_OFFSET),
        segments=[SegmentLength(base, sizes[file_name(base, LOG_SUFFIX)]) for base in bases],
    )
