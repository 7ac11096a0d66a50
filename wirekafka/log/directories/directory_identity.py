"""The node that owns a log directory, as `meta.properties` says (KIP-631, KIP-858)."""

from __future__ import annotations

from typing import NamedTuple

from wirekafka.log import checkpoints

INCOMPLETE_PROPERTIES = (
    b"# A snapshot that is being created, or was interrupted.\nversion=incomplete\n"
)
"""The `meta.properties` of a snapshot that is not complete: neither wirekafka nor Kafka starts."""


class UnreadableIdentity(OSError):
    """A `meta.properties` with unknown contents, which Kafka treats like one it cannot read."""


class NoIdentity(Exception):
    """A `meta.properties` that names no node of KRaft mode, on which Kafka does not start.

    It is empty, or of a Kafka in ZooKeeper mode.
    """


class DirectoryIdentity(NamedTuple):
    """The node that owns a directory, as in `meta.properties` version 1.

    `directory_id` is 16 bytes, or empty where Kafka before 3.7 wrote the file.
    """

    cluster_id: str
    node_id: int
    directory_id: bytes

    def mismatch(self, cluster_id: str, node_id: int) -> str:
        """Say to whom the directory belongs, unless it belongs to this node; empty if it does."""
        if self.cluster_id != cluster_id:
            return f"cluster {self.cluster_id}, not to {cluster_id}"
        if self.node_id != node_id:
            return (
                f"node {self.node_id}, and this is node {node_id}: set node.id={self.node_id},"
                " or use another directory"
            )
        return ""


def identity_from(text: bytes, path: str) -> DirectoryIdentity:
    """Return the identity in a `meta.properties` file; `path` is for messages.

    Raises UnreadableIdentity, or NoIdentity for version 0, which is the default.
    """
    try:
        properties = checkpoints.properties_from(text)
    except checkpoints.BadCheckpoint as error:
        raise UnreadableIdentity(f"{path}: {error}") from None
    version = properties.get("version", "0")
    if version == "0" and not {"version", "broker.id"} & properties.keys():
        raise NoIdentity(
            f"{path} is {'incomplete' if properties else 'empty'}: restore it, or write the lines"
            " version=1, cluster.id= and node.id= with the cluster and node that own the directory"
        )
    if version == "0":
        raise NoIdentity(
            f"{path} has version 0: Kafka wrote it in ZooKeeper mode. Migrate the cluster to KRaft"
            " with Kafka 3.9 first"
        )
    if version == "incomplete":
        directory = path.rpartition("/")[0]
        raise NoIdentity(f"{directory} is an incomplete snapshot: remove it, and create it again")
    if version != "1":
        raise UnreadableIdentity(f"{path} has version {version!r}, not 1")
    try:
        directory_id = properties.get("directory.id")
        return DirectoryIdentity(
            properties["cluster.id"],
            int(properties["node.id"]),
            b"" if directory_id is None else checkpoints.uuid_from(directory_id),
        )
    except (KeyError, ValueError) as error:
        raise UnreadableIdentity(f"{path}: bad {error}") from None
