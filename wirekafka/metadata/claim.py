"""Opens, locks and claims the log directories of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.log.checkpoints import META_PROPERTIES, properties_from, uuid_text
from wirekafka.log.files import Disk
from wirekafka.log.log_directory import DirectoryIdentity, LogDirectory, UnusableDirectory
from wirekafka.metadata.channel import Registration


def locked(disk: Disk, config: BrokerConfig) -> list[LogDirectory]:
    """Open and lock the log directories, that of the metadata log first."""
    directories: list[LogDirectory] = []
    try:
        for path in _paths(config):
            directories.append(LogDirectory(disk, path))
    except BaseException:
        for directory in directories:
            directory.release()
        raise
    return directories


def check_cluster(disk: Disk, config: BrokerConfig, cluster_id: str) -> None:
    """Raise UnusableDirectory if a log directory belongs to another cluster than the controllers.

    Call it before the directories are locked and claimed, so that nothing is written there.
    """
    for path in _paths(config):
        file = f"{path.rstrip('/')}/{META_PROPERTIES}"
        if not disk.exists(file):
            continue
        known = properties_from(disk.read(file)).get("cluster.id", cluster_id)
        if known != cluster_id:
            raise UnusableDirectory(
                f"{path} belongs to cluster {known}, but the controllers to {cluster_id}"
            )


def claim(
    directories: Sequence[LogDirectory],
    node_id: int,
    cluster_id: str | None,
    new_id: Callable[[], bytes],
) -> str:
    """Write this node's identity to the directories, new ids included; returns the cluster id.

    `cluster_id` is that of new directories; None generates one. Raises UnusableDirectory.
    """
    cluster_ids = {
        directory.identity.cluster_id for directory in directories if directory.identity is not None
    }
    if len(cluster_ids) > 1:
        raise UnusableDirectory(f"log directories of several clusters: {sorted(cluster_ids)}")
    found_id = cluster_ids.pop() if cluster_ids else cluster_id or uuid_text(new_id())
    for directory in directories:
        known = directory.identity
        directory_id = known.directory_id if known and known.directory_id else new_id()
        directory.claim(DirectoryIdentity(found_id, node_id, directory_id))
    return found_id


def registration_of(
    directories: Sequence[LogDirectory], config: BrokerConfig, incarnation_id: bytes
) -> Registration:
    """Return the registration of a broker with these claimed directories, without endpoints."""
    identities = [each.identity for each in directories if each.identity is not None]
    return Registration.with_own_features(
        broker_id=config.node_id,
        cluster_id=identities[0].cluster_id,
        incarnation_id=incarnation_id,
        endpoints=(),
        rack=config.broker_rack,
        log_dirs=[each.directory_id for each in identities],
        previous_epoch=previous_epoch(directories),
    )


def previous_epoch(directories: Sequence[LogDirectory]) -> int:
    """Return the broker epoch of the last stop; -1 unless it was clean in all directories.

    After an unclean stop, the controller removes this broker from the ISRs (KIP-966).
    """
    epochs = {directory.broker_epoch for directory in directories}
    return epochs.pop() if len(epochs) == 1 else -1


def _paths(config: BrokerConfig) -> list[str]:
    """The log directories, that of the metadata log first."""
    paths = list(config.data_directories)
    metadata_path = config.metadata_log_dir or paths[0]
    if metadata_path not in paths:
        paths.insert(0, metadata_path)
    paths.sort(key=lambda path: path != metadata_path)
    return paths
