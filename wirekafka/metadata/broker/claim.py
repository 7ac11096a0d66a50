"""Opens, locks and claims the log directories of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import controllers
from wirekafka.config.own import new_directories
from wirekafka.log.checkpoints import (
    META_PROPERTIES,
    PARTITION_METADATA,
    BadCheckpoint,
    properties_from,
    uuid_text,
)
from wirekafka.log.directories.directory_identity import DirectoryIdentity
from wirekafka.log.directories.log_directory import METADATA_LOG, LogDirectory, UnusableDirectory
from wirekafka.log.directories.log_names import log_names
from wirekafka.log.files import Disk
from wirekafka.metadata.controller.channel import Registration

logger = logging.getLogger(__name__)


def locked(disk: Disk, config: BrokerConfig) -> list[LogDirectory]:
    """Open and lock the log directories, beginning with the metadata log's directory.

    As in Kafka, any other directory may have failed; then its `failure` is set. Raises
    UnusableDirectory.
    """
    check_present(disk, config)
    directories: list[LogDirectory] = []
    try:
        for path in _paths(config):
            directory = LogDirectory(disk, path)
            directories.append(directory)
            if directory.failure is not None:
                _check_failed(directory, is_first=len(directories) == 1)
    except BaseException:
        for directory in directories:
            directory.release()
        raise
    return directories


def check_present(disk: Disk, config: BrokerConfig) -> None:
    """Raise UnusableDirectory for a directory that has lost its `meta.properties`.

    As in Kafka, a directory without this file is refused beside directories that have it: its disk
    may not be mounted, and new logs would be created on the mount point. Kafka needs a format step
    before the first start; here, new directories are formatted if all of them are new.
    """
    paths = _paths(config)
    formatted = [path for path in paths if _is_formatted(disk, path)]
    absent = [path for path in paths if _is_formatted(disk, path) is False]
    for path in absent:
        logs = _logs(disk, path)
        if logs:
            raise UnusableDirectory(
                f"{path} has logs, such as {logs[0]}, but no {META_PROPERTIES}, which names the"
                " cluster and node that own them: restore that file"
            )
    new = {path.rstrip("/") for path in new_directories(config.sources)}
    expected = [path for path in absent if path.rstrip("/") not in new]
    # The first start may have ended before it had formatted all directories: no logs exist then.
    has_started = paths[0] not in formatted or any(_logs(disk, path) for path in formatted)
    if expected and formatted and has_started:
        raise UnusableDirectory(
            f"{expected[0]} has no {META_PROPERTIES}, and {formatted[0]} of the same node has one:"
            " mount or restore the directory. If it is a new one, add it with --new-directory"
        )


def check_cluster(disk: Disk, config: BrokerConfig, cluster_id: str, whose: str) -> None:
    """Raise UnusableDirectory if a log directory belongs to another cluster than this one.

    Call it before the directories are locked and claimed, so that nothing is written there.
    `whose` completes the message: "belongs to cluster A, but the controllers to B".
    """
    for path in _paths(config):
        try:
            text = disk.read(f"{path.rstrip('/')}/{META_PROPERTIES}")
            known = properties_from(text).get("cluster.id", cluster_id)
        except (OSError, BadCheckpoint):
            continue  # It is new, has failed, or is refused when it is opened.
        if known != cluster_id:
            raise UnusableDirectory(f"{path} belongs to cluster {known}, but {whose} {cluster_id}")


def check_formatted(disk: Disk, config: BrokerConfig, cluster_id: str | None) -> None:
    """Raise UnusableDirectory for a controller of several that lacks the id of its cluster.

    A node on its own may generate an id; several controllers would each generate another.
    """
    others = controllers.voters(config).keys() - {config.node_id}
    if cluster_id is not None or not (others or controllers.bootstrap_servers(config)):
        return
    path = _paths(config)[0]
    if not disk.exists(f"{path.rstrip('/')}/{META_PROPERTIES}"):
        raise UnusableDirectory(
            f"{path} is not formatted, and this node is one of several controllers: set CLUSTER_ID "
            "in the environment to the same id on every node, or format the directory with "
            "kafka-storage.sh"
        )


def claim(
    directories: Sequence[LogDirectory],
    node_id: int,
    cluster_id: str | None,
    new_id: Callable[[], bytes],
) -> str:
    """Write this node's identity to the directories, new ids included; returns the cluster id.

    Failed directories stay as they are. `cluster_id` is the cluster id of new directories; None
    generates an id. Raises UnusableDirectory.
    """
    cluster_ids = {
        directory.identity.cluster_id for directory in directories if directory.identity is not None
    }
    if len(cluster_ids) > 1:
        raise UnusableDirectory(f"log directories of several clusters: {sorted(cluster_ids)}")
    found_id = cluster_ids.pop() if cluster_ids else cluster_id or uuid_text(new_id())
    for directory in directories:
        reason = directory.identity and directory.identity.mismatch(found_id, node_id)
        if reason and directory.failure is None:  # Before anything is written.
            raise UnusableDirectory(f"{directory.path} belongs to {reason}")
    for directory in directories:
        if directory.failure is not None:
            continue
        known = directory.identity
        directory_id = known.directory_id if known and known.directory_id else new_id()
        directory.claim(DirectoryIdentity(found_id, node_id, directory_id))
    return found_id


def registration_of(
    directories: Sequence[LogDirectory], config: BrokerConfig, incarnation_id: bytes
) -> Registration:
    """Return the registration of a broker with these claimed directories, without endpoints.

    Failed directories are not registered, so that the controllers elect no leader there.
    """
    identities = [
        each.identity for each in directories if each.identity is not None and each.failure is None
    ]
    return Registration.with_own_features(
        broker_id=config.node_id,
        cluster_id=identities[0].cluster_id,
        incarnation_id=incarnation_id,
        endpoints=(),
        rack=config.broker_rack,
        log_dirs=[each.directory_id for each in identities],
        previous_epoch=previous_epoch(directories),
    )


def cordoned_ids(directories: Sequence[LogDirectory], config: BrokerConfig) -> list[bytes]:
    """Return the ids of the directories in service that get no new replicas (KIP-1066)."""
    return [
        each.identity.directory_id
        for each in directories
        if each.identity is not None and each.failure is None and config.is_cordoned(each.path)
    ]


def previous_epoch(directories: Sequence[LogDirectory]) -> int:
    """Return the broker epoch of the last stop; -1 unless it was clean in all directories.

    After an unclean stop, the controller removes this broker from the ISRs (KIP-966).
    """
    epochs = {directory.broker_epoch for directory in directories}
    has_failed = any(directory.failure is not None for directory in directories)
    return epochs.pop() if len(epochs) == 1 and not has_failed else -1


def _is_formatted(disk: Disk, path: str) -> bool | None:
    """Whether the directory has a `meta.properties`; None if it has failed: reported later."""
    try:
        disk.read(f"{path.rstrip('/')}/{META_PROPERTIES}")
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return True


def _logs(disk: Disk, path: str) -> list[str]:
    """The names of the logs in a directory, not of other directories that are named alike."""
    try:
        return [
            name
            for name in log_names(disk, path)
            if name == METADATA_LOG or disk.exists(f"{path}/{name}/{PARTITION_METADATA}")
        ]
    except OSError:  # It does not exist yet, or has failed.
        return []


def _check_failed(directory: LogDirectory, *, is_first: bool) -> None:
    """Raise UnusableDirectory if a node cannot start without this directory."""
    if is_first:
        raise UnusableDirectory(
            f"Encountered I/O error in metadata log directory {directory.path}. Cannot continue:"
            f" {directory.failure}"
        )
    logger.error(
        "Failed to create or validate data directory %s: %s", directory.path, directory.failure
    )


def _paths(config: BrokerConfig) -> list[str]:
    """The paths of the log directories, the metadata log's directory first."""
    paths = list(config.data_directories)
    metadata_path = config.metadata_log_dir or paths[0]
    if metadata_path not in paths:
        paths.insert(0, metadata_path)
    paths.sort(key=lambda path: path != metadata_path)
    return paths
