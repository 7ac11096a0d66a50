"""The cluster's metadata, folded from the files of a metadata log without opening the log."""

from __future__ import annotations

from wirekafka.codec.batch import batches
from wirekafka.errors import KafkaError
from wirekafka.log.files import ReadableDisk
from wirekafka.log.producer_snapshots import offsets_in
from wirekafka.log.segment import LOG_SUFFIX, file_name
from wirekafka.metadata.image.framing import MetadataCodec, UnknownMetadata
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.replication.raft.snapshot_file import SnapshotId


class UndecodableMetadata(Exception):
    """Files of a metadata log that cannot be decoded; the message says which."""


def read_metadata(disk: ReadableDisk, path: str) -> MetadataImage:
    """Fold the newest snapshot, and the whole batches behind it, into an image.

    The end of the log may be newer than what is committed. Raises UndecodableMetadata, OSError.
    """
    image, codec = MetadataImage(), MetadataCodec()
    sizes = {entry.name: entry.size_bytes for entry in disk.list_directory(path)}
    snapshots = [found for name in sizes if (found := SnapshotId.parse(name)) is not None]
    start = max(snapshots, default=None)
    if start is not None:
        _replay(disk, f"{path}/{start.file_name}", image, codec, 0)
    for base_offset in sorted(offsets_in(sizes, LOG_SUFFIX)):
        name = file_name(base_offset, LOG_SUFFIX)
        _replay(disk, f"{path}/{name}", image, codec, 0 if start is None else start.end_offset)
    return image


def _replay(
    disk: ReadableDisk, path: str, image: MetadataImage, codec: MetadataCodec, from_offset: int
) -> None:
    data = disk.read(path)
    try:
        for at, header in batches(data):
            if header.is_control or header.base_offset < from_offset:
                continue
            for record in codec.decode(data[at : at + header.size_bytes]):
                image.replay(record)
    except (KafkaError, UnknownMetadata, KeyError, ValueError) as error:
        raise UndecodableMetadata(f"{path}: {error}") from None
