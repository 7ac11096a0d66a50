"""The manifest of a segment in Aiven's layout: how its objects are divided into chunks."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import zstandard

from wirekafka.codec.batch import Buffer
from wirekafka.tiered.layout import IndexKind
from wirekafka.tiered.store import DamagedObject, StoreError

_VERSION = "1"
_MOST_INDEX_BYTES = 10 << 20


class Extent(NamedTuple):
    """A region of an object, in bytes."""

    position: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The sizes of chunks: all but the last are of one size before they are transformed."""

    chunk_bytes: int
    file_bytes: int
    stored: Sequence[int]
    """The size of each chunk as it is stored."""
    is_fixed: bool
    """Whether all but the last are of one size there, too; they are written in fewer words."""

    def starts(self) -> list[int]:
        """Where each chunk begins as it is stored, and where the last one ends."""
        return [0, *accumulate(self.stored)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkManifest:
    """What is known of the objects of a segment."""

    chunks: ChunkIndex
    indexes: Mapping[IndexKind, Extent]
    """Where the indexes are in their object."""
    is_compressed: bool
    is_encrypted: bool = False

    def encode(self, segment: Mapping[str, Any]) -> bytes:
        """The object; `segment` describes the segment for people, and is not read again."""
        extents = {kind.value: self.indexes.get(kind) for kind in IndexKind}
        document = {
            "version": _VERSION,
            "chunkIndex": _index_document(self.chunks),
            "segmentIndexes": {
                name: None
                if extent is None
                else {"position": extent.position, "size": extent.size_bytes}
                for name, extent in extents.items()
            },
            "compression": self.is_compressed,
            "remoteLogSegmentMetadata": segment,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: Buffer) -> ChunkManifest:
        """The inverse of `encode`. Raises StoreError."""
        try:
            document = json.loads(bytes(data))
            if document["version"] != _VERSION:
                raise StoreError(f"a manifest of version {document['version']}")
            return cls(
                chunks=_index_of(document["chunkIndex"]),
                indexes={
                    IndexKind(name): Extent(extent["position"], extent["size"])
                    for name, extent in document["segmentIndexes"].items()
                    if extent is not None
                },
                is_compressed=bool(document["compression"]),
                is_encrypted=document.get("encryption") is not None,
            )
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise DamagedObject(f"a manifest is damaged: {error!r}") from error


def encode_sizes(sizes: Sequence[int]) -> bytes:
    """Numbers in few bytes: all but the last as differences from the smallest of them."""
    count = len(sizes).to_bytes(4, "big")
    if len(sizes) < 2:
        return count + b"".join(size.to_bytes(4, "big") for size in sizes)
    *others, last = sizes
    base = min(others)
    width = max((max(others) - base).bit_length() + 7 >> 3, 1)
    differences = b"".join((size - base).to_bytes(width, "big") for size in others)
    return count + base.to_bytes(4, "big") + bytes((width,)) + differences + last.to_bytes(4, "big")


def decode_sizes(data: bytes) -> list[int]:
    """The inverse of `encode_sizes`. Raises ValueError."""
    count = int.from_bytes(data[:4], "big")
    if count < 2:
        expected, sizes = 4 + 4 * count, [int.from_bytes(data[4:8], "big")] * count
    else:
        base, width = int.from_bytes(data[4:8], "big"), data[8]
        expected = 9 + (count - 1) * width + 4
        sizes = [
            base + int.from_bytes(data[at : at + width], "big")
            for at in range(9, 9 + (count - 1) * width, width)
        ]
        sizes.append(int.from_bytes(data[expected - 4 :], "big"))
    if len(data) != expected:
        raise ValueError(f"{len(data)} bytes of sizes where {expected} were expected")
    return sizes


def _index_document(chunks: ChunkIndex) -> dict[str, Any]:
    head = {
        "type": "fixed" if chunks.is_fixed else "variable",
        "originalChunkSize": chunks.chunk_bytes,
        "originalFileSize": chunks.file_bytes,
    }
    if chunks.is_fixed:
        stored = {
            "transformedChunkSize": chunks.stored[0],
            "finalTransformedChunkSize": chunks.stored[-1],
        }
        return head | stored
    packed = zstandard.ZstdCompressor().compress(encode_sizes(chunks.stored))
    return head | {"transformedChunks": b64encode(packed).decode()}


def _index_of(document: Mapping[str, Any]) -> ChunkIndex:
    chunk_bytes, file_bytes = document["originalChunkSize"], document["originalFileSize"]
    count = -(-file_bytes // chunk_bytes)
    if document["type"] == "fixed":
        last = document["finalTransformedChunkSize"]
        stored = [document["transformedChunkSize"]] * (count - 1) + [last]
        return ChunkIndex(chunk_bytes, file_bytes, stored, True)
    packed = b64decode(document["transformedChunks"])
    try:
        data = zstandard.ZstdDecompressor().decompress(packed, _MOST_INDEX_BYTES)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    stored = decode_sizes(data)
    if len(stored) != count:
        raise ValueError(f"{len(stored)} chunks where {count} were expected")
    return ChunkIndex(chunk_bytes, file_bytes, stored, False)
