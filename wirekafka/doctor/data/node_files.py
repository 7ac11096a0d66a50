"""Gathers the facts about log directories; nothing is written, created or locked."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.doctor.data.facts import DirectoryFiles, FoundLog, MarkedLog, NodeFiles
from wirekafka.doctor.data.metadata_files import UndecodableMetadata, read_metadata
from wirekafka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    BadCheckpoint,
    offsets_from,
    partition_metadata_from,
)
from wirekafka.log.directories.directory_identity import (
    DirectoryIdentity,
    NoIdentity,
    UnreadableIdentity,
    identity_from,
)
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.log.directories.log_names import LOG_NAME, MARKED_NAME, REMOTE_INDEX_CACHE
from wirekafka.log.files import DirectoryEntry, RealDisk, access_below, is_locked
from wirekafka.metadata.image.image import MetadataImage

_CHECKPOINTS = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)


def read_node(disk: RealDisk, paths: Sequence[str]) -> NodeFiles:
    """Read the log directories of a node. Raises OSError if one cannot be listed."""
    directories = [_read(disk, path) for path in paths]
    image: MetadataImage | None = None
    problem = ""
    for directory in directories:
        if directory.has_metadata:
            try:
                image = read_metadata(disk, f"{directory.path}/{METADATA_LOG}")
            except (UndecodableMetadata, OSError) as error:
                problem = str(error)
    return NodeFiles(directories=directories, image=image, problem=problem)


def _read(disk: RealDisk, path: str) -> DirectoryFiles:
    entries = {entry.name: entry for entry in disk.list_directory(path)}
    identity, problem = _identity(disk, path, META_PROPERTIES in entries)
    folders = [name for name, entry in entries.items() if entry.is_directory]
    logs, marked, foreign = [], [], []
    for name in sorted(folders):
        if name in (METADATA_LOG, REMOTE_INDEX_CACHE):
            continue
        if (mark := MARKED_NAME.fullmatch(name)) is not None:
            size_bytes = sum(each.size_bytes for each in _list(disk, f"{path}/{name}"))
            marked.append(MarkedLog(name, mark["mark"], size_bytes))
        elif (log := LOG_NAME.fullmatch(name)) is not None:
            logs.append(_log(disk, f"{path}/{name}", log["topic"], int(log["partition"])))
        else:
            foreign.append(name)
    is_log_directory = bool(logs) or METADATA_LOG in folders or META_PROPERTIES in entries
    if not is_log_directory:
        return DirectoryFiles(path=path, problem=problem)
    return DirectoryFiles(
        path=path,
        identity=identity,
        problem=problem,
        is_in_use=is_locked(f"{path}/{LOCK}"),
        is_clean=CLEAN_SHUTDOWN in entries,
        has_metadata=METADATA_LOG in folders,
        logs=logs,
        marked=marked,
        foreign=foreign,
        bad_checkpoints=_bad_checkpoints(disk, path),
        free_bytes=disk.free_bytes(path),
        total_bytes=disk.total_bytes(path),
        access=list(access_below(path)),
    )


def _identity(disk: RealDisk, path: str, is_named: bool) -> tuple[DirectoryIdentity | None, str]:
    if not is_named:
        return None, "it has no meta.properties"
    file = f"{path}/{META_PROPERTIES}"
    try:
        return identity_from(disk.read(file), file), ""
    except (NoIdentity, UnreadableIdentity) as error:
        return None, str(error)
    except OSError as error:
        return None, f"{file} cannot be read: {error.strerror}"


def _log(disk: RealDisk, path: str, topic: str, partition: int) -> FoundLog:
    entries = _list(disk, path)
    topic_id = b""
    if any(entry.name == PARTITION_METADATA for entry in entries):
        try:
            text = disk.read(f"{path}/{PARTITION_METADATA}")
            topic_id = partition_metadata_from(text) or b""
        except OSError:
            pass  # Found as a file that its owner cannot use, or just deleted.
    return FoundLog(topic, partition, topic_id, sum(each.size_bytes for each in entries))


def _list(disk: RealDisk, path: str) -> list[DirectoryEntry]:
    try:
        return disk.list_directory(path)
    except FileNotFoundError:
        return []  # The node deletes logs while it runs.


def _bad_checkpoints(disk: RealDisk, path: str) -> dict[str, str]:
    found = {}
    for name in _CHECKPOINTS:
        try:
            offsets_from(disk.read(f"{path}/{name}"))
        except FileNotFoundError:
            continue
        except (BadCheckpoint, OSError) as error:
            found[name] = str(error)
    return found
