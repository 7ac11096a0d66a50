"""The four codecs of record batches, framed as Kafka frames them, with bounded decompression.

Their libraries are imported when they are first used, not at a broker's start.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from wirekafka.errors import Error, KafkaError

if TYPE_CHECKING:
    import zstandard

Buffer: TypeAlias = bytes | bytearray | memoryview
Piece: TypeAlias = bytes | memoryview

DEFAULT_LIMIT_BYTES = 128 << 20
"""The most bytes one batch may inflate to when the caller gives no limit."""
PIECE_BYTES = 64 << 10
"""How much is inflated at a time, without the GIL, where a batch is read piece by piece."""
_LEAST_BYTES = 4 << 10
"""The least size that a gzip member, lz4 frame, snappy block or other piece counts as where sizes
are limited: a megabyte of empty pieces takes up to a second of a processor."""
_FREE_BYTES = 64 * _LEAST_BYTES
"""How many bytes beyond the limit may be counted for small pieces."""
_LARGEST_WINDOW_BYTES = 128 << 20
"""The window in bytes that zstd's readers accept by default: the window of level 22, the
highest."""
_FRUGAL_WINDOW_BYTES = 32 << 20
"""The window of level 20, which the reader of a zstd stream has to hold in memory."""


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
    step_bytes = min(limit_bytes + 1, max(len(data) * 4, PIECE_BYTES))
    parts = list(_inflated(codec, data, _Bounds(step_bytes, limit_bytes, _LARGEST_WINDOW_BYTES)))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def pieces(codec: int, data: Buffer, limit_bytes: int) -> Iterator[Piece]:
    """Decompress piece by piece, for a reader that holds one piece at a time.

    A piece is small, except for snappy's blocks, which are never divided and are at most 21 times
    as large as their data. Raises as `decompress`; zstd data may inflate to 32 MiB only if its
    window exceeds 32 MiB, as the windows of levels 21 and 22 do.
    """
    return _inflated(codec, data, _Bounds(PIECE_BYTES, limit_bytes, _FRUGAL_WINDOW_BYTES))


def announced_bytes(codec: int, data: Buffer) -> int | None:
    """What data say that they inflate to, which may be wrong; None if they do not say it."""
    if codec == Codec.GZIP and len(data) > _GZIP_SIZE.size:
        (size,) = _GZIP_SIZE.unpack_from(data, len(data) - _GZIP_SIZE.size)
        return int(size)
    if codec == Codec.ZSTD:
        import zstandard

        try:
            size = zstandard.frame_content_size(data)
        except zstandard.ZstdError:
            return None
        return size if size >= 0 else None
    return None


class _Bounds(NamedTuple):
    step_bytes: int
    """The largest piece."""
    limit_bytes: int
    window_bytes: int


def _inflated(codec: int, data: Buffer, bounds: _Bounds) -> Iterator[Piece]:
    inflate = _INFLATING.get(codec)
    if inflate is None:
        raise _unknown_codec(codec)
    room = bounds.limit_bytes
    spare = room + _FREE_BYTES
    try:
        for piece in inflate(data, bounds):
            room -= len(piece)
            spare -= max(len(piece), _LEAST_BYTES)
            if room < 0:
                raise _too_large(bounds.limit_bytes)
            if spare < 0:
                raise KafkaError(Error.INVALID_RECORD, "Compressed records have too many parts")
            if piece:
                yield piece
    except (RuntimeError, ValueError, EOFError, zlib.error, struct.error) as error:
        raise KafkaError(
            Error.CORRUPT_MESSAGE, f"Failed to decompress record stream: {error}"
        ) from error


def _unknown_codec(codec: int) -> KafkaError:
    return KafkaError(Error.INVALID_RECORD, f"Unknown compression type id: {codec}")


def _too_large(limit_bytes: int) -> KafkaError:
    return KafkaError(
        Error.INVALID_RECORD, f"Compressed records inflate to more than {limit_bytes} bytes"
    )


def _inflate_gzip(data: Buffer, bounds: _Bounds) -> Iterator[Piece]:
    rest = memoryview(data)
    step_bytes = bounds.step_bytes
    # Several gzip members in a row are one stream, as Java's GZIPInputStream reads them.
    while len(rest):
        stream = zlib.decompressobj(31)
        while not stream.eof:
            given = rest[:step_bytes]
            part = stream.decompress(given, step_bytes)
            used = len(given) - len(stream.unused_data if stream.eof else stream.unconsumed_tail)
            if not part and not used:
                raise ValueError("the gzip stream ends early")
            rest = rest[used:]
            if part or stream.eof:
                yield part
        step_bytes = min(step_bytes, PIECE_BYTES)  # Each member copies what follows it.


_GZIP_SIZE = struct.Struct("<I")
"""The last field of a gzip member."""

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 << 10
"""snappy-java's default block size, which bounds a reader's buffer."""
_BLOCK_SIZE = struct.Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    out = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(out)


def _inflate_snappy(data: Buffer, bounds: _Bounds) -> Iterator[Piece]:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        # librdkafka and others write one raw block; snappy-java falls back to it too.
        yield _inflate_block(view, bounds.limit_bytes)
        return
    at = len(_XERIAL_HEADER)
    while at < len(view):
        if bytes(view[at : at + 8]) == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            yield b""
            continue
        (size,) = _BLOCK_SIZE.unpack_from(view, at)
        at += 4
        if not 0 <= size <= len(view) - at:
            raise ValueError(f"a snappy block of {size} bytes where {len(view) - at} are left")
        yield _inflate_block(view[at : at + size], bounds.limit_bytes)
        at += size


def _inflate_block(block: memoryview, limit_bytes: int) -> Piece:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > limit_bytes:
            raise _too_large(limit_bytes)
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error


_KAFKA_LZ4_DEFAULT_LEVEL = 9


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

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


def _inflate_lz4(data: Buffer, bounds: _Bounds) -> Iterator[Piece]:
    import lz4.frame

    view = memoryview(data)
    step_bytes = bounds.step_bytes
    at = 0
    while at < len(view):
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            wants = frame.needs_input
            given = view[at : at + step_bytes] if wants else b""
            at += len(given)
            part = frame.decompress(given, max_length=step_bytes)
            if part or frame.eof:
                yield part
            elif wants and not given:
                raise ValueError("the lz4 frame ends early")
        at -= len(frame.unused_data or b"")
        step_bytes = min(step_bytes, PIECE_BYTES)  # Each frame copies what follows it.


class _ZstdContexts(threading.local):
    """Each thread's zstd contexts, which take 16 us to create and are not thread-safe."""

    def __init__(self) -> None:
        self.decompressor: zstandard.ZstdDecompressor | None = None
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}


_zstd = _ZstdContexts()


def _zstd_compressor(level: int) -> zstandard.ZstdCompressor:
    import zstandard

    compressor = _zstd.compressors.get(level)
    if compressor is None:
        compressor = _zstd.compressors[level] = zstandard.ZstdCompressor(level=level)
    return compressor


def _inflate_zstd(data: Buffer, bounds: _Bounds) -> Iterator[Piece]:
    import zstandard

    if bounds.window_bytes == _LARGEST_WINDOW_BYTES:
        if _zstd.decompressor is None:
            _zstd.decompressor = zstandard.ZstdDecompressor()
        whole = _small_zstd_frame(_zstd.decompressor, data, bounds.step_bytes)
        if whole is not None:
            yield whole
            return
        yield from _read_zstd(_zstd.decompressor, data, bounds.step_bytes)
        return
    largest, room = bounds.window_bytes, bounds.limit_bytes
    if _zstd_window(data) > largest:
        # Memory is used as far as the window is filled.
        largest, room = _LARGEST_WINDOW_BYTES, min(largest, room)
    # Not the shared one: a context keeps the largest window that it has had.
    decompressor = zstandard.ZstdDecompressor(max_window_size=largest)
    for piece in _read_zstd(decompressor, data, bounds.step_bytes):
        room -= len(piece)
        if room < 0:
            raise _too_large(bounds.limit_bytes)
        yield piece


def _small_zstd_frame(
    decompressor: zstandard.ZstdDecompressor, data: Buffer, most_bytes: int
) -> bytes | None:
    """What a single frame inflates to, in about half the time of a stream; None if that is more.

    None for broken data, too: the reader of streams says what is wrong with it.
    """
    import zstandard

    try:
        # What a frame announces would be allocated, whatever the limit.
        if zstandard.frame_content_size(data) > most_bytes:
            return None
        return decompressor.decompress(data, max_output_size=most_bytes, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _zstd_window(data: Buffer) -> int:
    import zstandard

    try:
        return zstandard.get_frame_parameters(data).window_size
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def _read_zstd(
    decompressor: zstandard.ZstdDecompressor, data: Buffer, step_bytes: int
) -> Iterator[bytes]:
    import zstandard

    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        while True:
            try:
                part = reader.read(step_bytes)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from error
            if not part:
                return
            yield part


_INFLATING: dict[int, Callable[[Buffer, _Bounds], Iterator[Piece]]] = {
    Codec.GZIP: _inflate_gzip,
    Codec.SNAPPY: _inflate_snappy,
    Codec.LZ4: _inflate_lz4,
    Codec.ZSTD: _inflate_zstd,
}
