"""The layout of Apache Kafka's LocalTieredStorage: a folder for each partition, six files each."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence

from wirekafka.codec.batch import Buffer
from wirekafka.tiered.layout import IndexKind, SegmentFiles
from wirekafka.tiered.remote_segment import RemoteSegment, TieredPartition
from wirekafka.tiered.store import Store

FOLDER = "kafka-tiered-storage"
"""In the configured directory."""

_LOG = ".log"
_SUFFIXES = {
    IndexKind.OFFSET: ".index",
    IndexKind.TIMESTAMP: ".timeindex",
    IndexKind.TRANSACTION: ".txnindex",
    IndexKind.LEADER_EPOCH: ".leader_epoch_checkpoint",
    IndexKind.PRODUCER_SNAPSHOT: ".snapshot",
}
_ALL = (_LOG, *_SUFFIXES.values())
"""The log file first: a listing shows what is left of a deletion."""


class LocalLayout:
    """Each segment is its log file and its indexes, as they are in a log directory."""

    def __init__(self, store: Store, key_prefix: str = ""):
        self._store = store
        self._key_prefix = key_prefix

    def copy(self, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        for kind, data in files.indexes.items():
            self._store.put(self._key(segment, _SUFFIXES[kind]), (data,))
        self._store.put(self._key(segment, _LOG), files.log())
        return None

    def read(self, segment: RemoteSegment, start: int, end: int) -> Buffer:
        return self._store.get_range(self._key(segment, _LOG), start, end)

    def index(self, segment: RemoteSegment, kind: IndexKind) -> Buffer:
        return self._store.get(self._key(segment, _SUFFIXES[kind]))

    def keys(self, segment: RemoteSegment) -> Sequence[str]:
        optional = _SUFFIXES[IndexKind.TRANSACTION] if segment.has_no_transactions else None
        return [self._key(segment, suffix) for suffix in _ALL if suffix != optional]

    def keys_if_any(self, segment: RemoteSegment) -> Sequence[str]:
        return [self._key(segment, suffix) for suffix in _ALL]

    def delete(self, segment: RemoteSegment) -> None:
        for key in self.keys_if_any(segment):
            self._store.delete(key)

    def _key(self, segment: RemoteSegment, suffix: str) -> str:
        folder, name = folder_of(segment.partition), id_text(segment.id)
        return f"{self._key_prefix}{folder}/{segment.start_offset:020d}-{name}{suffix}"


def folder_of(partition: TieredPartition) -> str:
    """The folder with all segments of a partition."""
    return f"{partition.topic}-{partition.number}-{id_text(partition.topic_id)}"


def id_text(identity: bytes) -> str:
    """An id of 16 bytes as Kafka writes it."""
    return urlsafe_b64encode(identity).rstrip(b"=").decode()
