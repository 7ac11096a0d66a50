"""The features and first users of a new cluster, as `kafka-storage format` writes them (KIP-778).

KIP-900: the first users' SCRAM credentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from wirekafka.codec.batch import read_header
from wirekafka.codec.message import Message
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.log.files import Disk
from wirekafka.metadata.controller.features import bootstrap_features
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.records.metadata import UserScramCredentialRecord
from wirekafka.replication.raft import snapshot_file
from wirekafka.replication.raft.snapshot_file import SnapshotId

BEFORE_4_4 = "bootstrap.checkpoint"
"""The file of Kafka 3.3 to 4.3, in the log directory itself."""

FILE_NAME = f"{METADATA_LOG}/{SnapshotId(0, 0).file_name}"
"""The file of Kafka 4.4: the metadata log's snapshot at offset 0."""


FirstUsers: TypeAlias = Sequence[UserScramCredentialRecord]


def bootstrap_records(
    disk: Disk, directory: str, now_ms: int, first_users: FirstUsers = ()
) -> Sequence[Message]:
    """Read the first records of a freshly formatted log directory, or write the defaults.

    They are used only while the metadata log is empty. A directory without any gets the features
    of this version and the SCRAM credentials of `first_users`, in Kafka 4.4's file; its metadata
    log must exist. Raises `BadSnapshot`, `UnknownMetadata`, OSError.
    """
    for name in (BEFORE_4_4, FILE_NAME):
        path = f"{directory}/{name}"
        found = _read(disk, path) if disk.exists(path) else []
        if found:
            return found
    records = [*bootstrap_features(), *first_users]
    metadata = f"{directory}/{METADATA_LOG}"
    if not any(SnapshotId.parse(entry.name) for entry in disk.list_directory(metadata)):
        disk.write_atomic(
            f"{directory}/{FILE_NAME}",
            b"".join(
                snapshot_file.encode(records, MetadataCodec(), snapshot_file.Frame(now_ms=now_ms))
            ),
        )
    return records


def _read(disk: Disk, path: str) -> list[Message]:
    codec = MetadataCodec()
    return [
        record
        for batch in snapshot_file.decode(disk.read(path))
        if not read_header(batch).is_control
        for record in codec.decode(batch)
    ]
