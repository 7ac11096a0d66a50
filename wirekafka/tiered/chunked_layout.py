"""The layout of Aiven's plugin for tiered storage: three objects for each segment, in chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from wirekafka.codec.batch import HEADER_BYTES, Buffer, read_header
from wirekafka.log.epochs import EpochEntry
from wirekafka.tiered.byte_cache import ByteCache
from wirekafka.tiered.chunk_manifest import ChunkIndex, ChunkManifest, Extent
from wirekafka.tiered.layout import IndexKind, SegmentFiles
from wirekafka.tiered.local_layout import id_text
from wirekafka.tiered.remote_segment import RemoteSegment, TieredPartition
from wirekafka.tiered.store import DamagedObject, ObjectMissing, Store, StoreError

_LOG, _INDEXES, _MANIFEST = "log", "indexes", "rsm-manifest"
_CODEC_BITS = 7
_MANIFESTS_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """How new segments are stored; existing segments are read whatever the settings are."""

    chunk_bytes: int
    key_prefix: str = ""
    compresses: bool = False
    spares_compressed: bool = False
    """Whether segments whose first batch is compressed already are stored as they are."""


class ChunkedLayout:
    """The log file, all indexes in one object, and a manifest that is written last."""

    def __init__(self, store: Store, options: ChunkOptions):
        self._store = store
        self._options = options
        self._manifests = ByteCache[bytes](_MANIFESTS_BYTES)

    def copy(self, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        compresses = self._options.compresses and not (
            self._options.spares_compressed and _is_compressed(files)
        )
        stored: list[int] = []
        self._store.put(self._key(segment, _LOG), self._chunks(files, compresses, stored))
        extents: dict[IndexKind, Extent] = {}
        pieces, position = [], 0
        for kind in IndexKind:
            data = files.indexes.get(kind)
            if data is not None:
                extents[kind] = Extent(position, len(data))
                position += len(data)
                pieces.append(data)
        self._store.put(self._key(segment, _INDEXES), (b"".join(pieces),))
        chunk_bytes = self._options.chunk_bytes
        manifest = ChunkManifest(
            chunks=ChunkIndex(chunk_bytes, files.size_bytes, stored, not compresses),
            indexes=extents,
            is_compressed=compresses,
        )
        self._store.put(self._key(segment, _MANIFEST), (manifest.encode(described(segment)),))
        return None

    def read(self, segment: RemoteSegment, start: int, end: int) -> Buffer:
        manifest, key = self._manifest(segment), self._key(segment, _LOG)
        if not manifest.is_compressed:
            return self._store.get_range(key, start, end)
        chunks = manifest.chunks
        if end > chunks.file_bytes:
            raise DamagedObject(f"{key}: the manifest has {chunks.file_bytes} bytes, not {end}")
        first, last = start // chunks.chunk_bytes, (end - 1) // chunks.chunk_bytes
        starts = chunks.starts()
        data = memoryview(self._store.get_range(key, starts[first], starts[last + 1]))
        decompressor = zstandard.ZstdDecompressor()
        found = []
        for number in range(first, last + 1):
            at = starts[number] - starts[first]
            piece = data[at : at + chunks.stored[number]]
            try:
                found.append(decompressor.decompress(piece, chunks.chunk_bytes))
            except zstandard.ZstdError as error:
                raise DamagedObject(f"{key}: chunk {number} is damaged: {error}") from error
        base = first * chunks.chunk_bytes
        return memoryview(b"".join(found))[start - base : end - base]

    def index(self, segment: RemoteSegment, kind: IndexKind) -> Buffer:
        extent = self._manifest(segment).indexes.get(kind)
        if extent is None:
            raise ObjectMissing(f"{self._key(segment, _INDEXES)} has no index {kind.value}")
        if not extent.size_bytes:
            return b""
        end = extent.position + extent.size_bytes
        return self._store.get_range(self._key(segment, _INDEXES), extent.position, end)

    def keys(self, segment: RemoteSegment) -> Sequence[str]:
        # First the manifest: without it, nothing of the segment is read.
        return [self._key(segment, suffix) for suffix in (_MANIFEST, _INDEXES, _LOG)]

    def keys_if_any(self, segment: RemoteSegment) -> Sequence[str]:
        return self.keys(segment)

    def delete(self, segment: RemoteSegment) -> None:
        for key in self.keys(segment):
            self._store.delete(key)
        self._manifests.forget(lambda key: key == segment.id)

    def _chunks(self, files: SegmentFiles, compresses: bool, stored: list[int]) -> Iterator[Buffer]:
        """The chunks of the log file as they are stored; their sizes go to `stored`."""
        compressor = zstandard.ZstdCompressor() if compresses else None
        for chunk in _cut(files.log(), self._options.chunk_bytes):
            data = chunk if compressor is None else compressor.compress(chunk)
            stored.append(len(data))
            yield data

    def _manifest(self, segment: RemoteSegment) -> ChunkManifest:
        data = self._manifests.get(
            segment.id, lambda: self._store.get(self._key(segment, _MANIFEST))
        )
        manifest = ChunkManifest.decode(data)
        if manifest.is_encrypted:
            raise StoreError("encrypted segments cannot be read")
        return manifest

    def _key(self, segment: RemoteSegment, suffix: str) -> str:
        partition = segment.partition
        folder = f"{partition.topic}-{id_text(partition.topic_id)}/{partition.number}"
        name = f"{segment.start_offset:020d}-{id_text(segment.id)}"
        return f"{self._options.key_prefix}{folder}/{name}.{suffix}"


def _cut(pieces: Iterator[Buffer], size_bytes: int) -> Iterator[bytes]:
    """The bytes of pieces in pieces of one size, the last of which may be smaller."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        while len(rest) >= size_bytes:
            yield bytes(rest[:size_bytes])
            del rest[:size_bytes]
    if rest:
        yield bytes(rest)


def _is_compressed(files: SegmentFiles) -> bool:
    first = next(files.log(), b"")
    return len(first) >= HEADER_BYTES and bool(read_header(first).attributes & _CODEC_BITS)


def described(segment: RemoteSegment) -> dict[str, Any]:
    partition = segment.partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": id_text(partition.topic_id),
                "topicPartition": {"topic": partition.topic, "partition": partition.number},
            },
            "id": id_text(segment.id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset - 1,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_ms,
        "segmentLeaderEpochs": {str(epoch): offset for epoch, offset in segment.epochs},
    }


def segment_in(data: Buffer, partition: TieredPartition, segment_id: bytes) -> RemoteSegment:
    """The segment that a manifest describes, as copied. Raises DamagedObject."""
    size_bytes = ChunkManifest.decode(data).chunks.file_bytes
    try:
        document = json.loads(bytes(data))["remoteLogSegmentMetadata"]
        epochs = sorted(
            EpochEntry(int(epoch), int(offset))
            for epoch, offset in document["segmentLeaderEpochs"].items()
        )
        return RemoteSegment(
            partition=partition,
            id=segment_id,
            start_offset=int(document["startOffset"]),
            end_offset=int(document["endOffset"]) + 1,
            max_timestamp_ms=int(document["maxTimestampMs"]),
            broker_id=int(document["brokerId"]),
            event_ms=int(document["eventTimestampMs"]),
            size_bytes=size_bytes,
            epochs=tuple(epochs),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedObject(f"a manifest is damaged: {error!r}") from error
