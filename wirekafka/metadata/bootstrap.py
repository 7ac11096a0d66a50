"""The `bootstrap.checkpoint` file: the features a new cluster begins with (KIP-778)."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.codec.batch import read_header
from wirekafka.codec.message import Message
from wirekafka.log.files import Disk
from wirekafka.metadata.features import bootstrap_features
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.replication import snapshot

FILE_NAME = "bootstrap.checkpoint"


def bootstrap_records(disk: Disk, directory: str, now_ms: int) -> Sequence[Message]:
    """The records of the directory's file, which is made with this version's where there is none.

    A directory that Kafka formatted and never started says here what its cluster is to be.
    Raises `BadSnapshot`, `UnknownMetadata`, OSError.
    """
    path = f"{directory}/{FILE_NAME}"
    codec = MetadataCodec()
    if not disk.exists(path):
        records = bootstrap_features()
        disk.write_atomic(path, b"".join(
            snapshot.encode(records, codec, snapshot.Frame(now_ms=now_ms))))
        return records
    return [
        record for batch in snapshot.decode(disk.read(path)) if not read_header(batch).is_control
        for record in codec.decode(batch)
    ]
