"""Whether Apache Kafka can take over a log directory, and the settings it needs to do so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from wirekafka.config.address import Address
from wirekafka.log.directories.log_directory import LogDirectory, UnusableDirectory
from wirekafka.log.directories.log_names import REMOTE_INDEX_CACHE
from wirekafka.log.files import Disk

_LOG_NAME = re.compile(r"[A-Za-z0-9._-]+-\d+(\.[0-9a-f]{32}-(delete|future|stray))?")
_METADATA_FILES = re.compile(r"\d{20}(-\d{10}\.checkpoint|\.log)")


class Handover(NamedTuple):
    """The node id and the log directories to take over, the directory of the metadata log first."""

    node_id: int
    directories: Sequence[str]


def examine(disk: Disk, paths: Sequence[str]) -> Handover:
    """Check whether Kafka can open the directories of one broker; changes nothing in them.

    Raises UnusableDirectory with the reason if it cannot.
    """
    node_ids = set()
    metadata_path = None
    for path in paths:
        if not disk.exists(f"{path}/meta.properties"):
            raise UnusableDirectory(f"{path} is no log directory: it has no meta.properties")
        directory = LogDirectory(disk, path)
        try:
            node_ids.add(_checked_node(disk, directory))
        finally:
            directory.release()
        if _has_metadata(disk, directory.path):
            metadata_path = path
    if len(node_ids) > 1:
        raise UnusableDirectory(f"the directories belong to several nodes: {sorted(node_ids)}")
    if metadata_path is None:
        raise UnusableDirectory(
            f"no metadata log in {', '.join(paths)}: Kafka would start empty and set every"
            " partition aside"
        )
    return Handover(node_ids.pop(), sorted(paths, key=lambda path: path != metadata_path))


def server_properties(handover: Handover, host: str, port: int) -> str:
    """The server.properties to start Apache Kafka 4.4 with, as a combined broker and controller.

    The controller listens on the port after the broker's. Replication factors suit one broker, for
    internal topics that do not exist yet.
    """
    controller = Address(host, port + 1)
    return "\n".join(
        (
            "process.roles=broker,controller",
            f"node.id={handover.node_id}",
            f"controller.quorum.voters={handover.node_id}@{controller}",
            f"listeners=PLAINTEXT://{Address(host, port)},CONTROLLER://{controller}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={','.join(handover.directories)}",
            f"metadata.log.dir={handover.directories[0]}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "",
        )
    )


def _checked_node(disk: Disk, directory: LogDirectory) -> int:
    if directory.failure is not None:
        raise UnusableDirectory(f"{directory.path} has failed: {directory.failure}")
    if directory.identity is None:
        raise UnusableDirectory(f"{directory.path}/meta.properties says nothing")
    if not directory.is_clean:
        raise UnusableDirectory(
            f"{directory.path} was not closed cleanly: start wirekafka on it once, and stop it"
        )
    foreign = [
        entry.name
        for entry in disk.list_directory(directory.path)
        if entry.is_directory
        and entry.name != REMOTE_INDEX_CACHE
        and not _LOG_NAME.fullmatch(entry.name)
    ]
    if foreign:
        raise UnusableDirectory(
            f"{directory.path} holds directories that are no logs, with which Kafka does not"
            f" start: {', '.join(sorted(foreign))}; move them away"
        )
    return directory.identity.node_id


def _has_metadata(disk: Disk, path: str) -> bool:
    metadata = f"{path}/__cluster_metadata-0"
    return disk.exists(metadata) and any(
        _METADATA_FILES.fullmatch(entry.name) for entry in disk.list_directory(metadata)
    )
