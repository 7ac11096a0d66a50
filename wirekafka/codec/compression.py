"""The four codecs of record batches, framed as Kafka frames them, with bounded decompression."""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

import cramjam
import lz4.frame
import zstandard

from wirekafka.errors import Error, KafkaError

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_LIMIT_BYTES = 128 << 20
"""The most bytes one batch may inflate to when the caller gives no limit."""


class Codec(IntEnum):
    """The compression number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress as every Kafka client can read it; `level` None is Kafka's default."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return stream.compress(data) + stream.flush()
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            return _zstd_compressor(3 if level is None else level).compress(data)
        case _:
            raise _unknown_codec(codec)


def decompress(codec: int, data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Buffer:
    """Decompress to at most `limit_bytes`; returns `data` itself for Codec.NONE.

    Raises KafkaError(CORRUPT_MESSAGE) for broken data, KafkaError(INVALID_RECORD) for an unknown
    codec and for data that would inflate beyond `limit_bytes`, before that much is allocated.
    """
    if codec == Codec.NONE:
        return data
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise _unknown_codec(codec)
    try:
        return decompressor(data, limit_bytes)
    except (RuntimeError, ValueError, EOFError, zlib.error, struct.error) as error:
        raise KafkaError(
            Error.CORRUPT_MESSAGE, f"Failed to decompress record stream: {error}"
        ) from error
    except (zstandard.ZstdError, cramjam.DecompressionError) as error:
        raise KafkaError(
            Error.CORRUPT_MESSAGE, f"Failed to decompress record stream: {error}"
        ) from error


def _unknown_codec(codec: int) -> KafkaError:
    return KafkaError(Error.INVALID_RECORD, f"Unknown compression type id: {codec}")


def _too_large(limit_bytes: int) -> KafkaError:
    return KafkaError(
        Error.INVALID_RECORD, f"Compressed records inflate to more than {limit_bytes} bytes"
    )


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes + 1
    rest: Buffer = data
    # Several gzip members in a row are one stream, as Java's GZIPInputStream reads them.
    while len(rest):
        stream = zlib.decompressobj(31)
        part = stream.decompress(rest, room)
        parts.append(part)
        room -= len(part)
        if room <= 0:
            raise _too_large(limit_bytes)
        if not stream.eof:
            raise ValueError("the gzip stream ends early")
        rest = stream.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 << 10
"""snappy-java's default block size, which bounds a reader's buffer."""
_BLOCK_SIZE = struct.Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    out = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(out)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        # librdkafka and others write one raw block; snappy-java falls back to it too.
        return _decompress_block(view, limit_bytes, limit_bytes)
    parts: list[bytes] = []
    room = limit_bytes
    at = len(_XERIAL_HEADER)
    while at < len(view):
        if bytes(view[at : at + 8]) == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        (size,) = _BLOCK_SIZE.unpack_from(view, at)
        at += 4
        if not 0 <= size <= len(view) - at:
            raise ValueError(f"a snappy block of {size} bytes where {len(view) - at} are left")
        part = _decompress_block(view[at : at + size], room, limit_bytes)
        parts.append(part)
        room -= len(part)
        at += size
    return b"".join(parts)


def _decompress_block(block: memoryview, room: int, limit_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _too_large(limit_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


_KAFKA_LZ4_DEFAULT_LEVEL = 9


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's default "9" means the fast compressor; other levels mean the high one (KIP-390).
    fast = level is None or level == _KAFKA_LZ4_DEFAULT_LEVEL
    # Java reads independent blocks only.
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if fast else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: Buffer, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes + 1
    rest: Buffer | None = data
    while rest:
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            part = frame.decompress(rest, max_length=min(room, max(len(data) * 4, _STEP_BYTES)))
            if not part and not frame.eof:
                raise ValueError("the lz4 frame ends early")
            parts.append(part)
            room -= len(part)
            if room <= 0:
                raise _too_large(limit_bytes)
            rest = b""
        rest = frame.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


_STEP_BYTES = 64 << 10


class _ZstdContexts(threading.local):
    """Each thread's zstd contexts, which take 16 us to create and are not thread-safe."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}


_zstd = _ZstdContexts()


def _zstd_compressor(level: int) -> zstandard.ZstdCompressor:
    compressor = _zstd.compressors.get(level)
    if compressor is None:
        compressor = _zstd.compressors[level] = zstandard.ZstdCompressor(level=level)
    return compressor


def _decompress_zstd(data: Buffer, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes + 1
    step = max(len(data) * 4, _STEP_BYTES)
    with _zstd.decompressor.stream_reader(data, read_across_frames=True) as reader:
        while part := reader.read(min(room, step)):
            parts.append(part)
            room -= len(part)
            if room <= 0:
                raise _too_large(limit_bytes)
    return parts[0] if len(parts) == 1 else b"".join(parts)


_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
