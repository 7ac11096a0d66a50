"""The four codecs: Kafka's framing, and a limit for decompressed sizes."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.codec.compression import (
    PIECE_BYTES,
    Codec,
    announced_bytes,
    compress,
    decompress,
    pieces,
)
from wirekafka.errors import Error, KafkaError

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b"line %d of a text that repeats itself\n" % line for line in range(5_000))

each_codec = pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)


@each_codec
@pytest.mark.parametrize("size_bytes", [0, 1, 100, 32_768, 32_769, 65_536, 200_000])
def test_compressed_data_is_decompressed_to_the_same_bytes(codec: Codec, size_bytes: int) -> None:
    assert bytes(decompress(codec, compress(codec, TEXT[:size_bytes]))) == TEXT[:size_bytes]


@each_codec
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=5_000))
def test_any_bytes_survive(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, memoryview(compress(codec, memoryview(data))))) == data


@pytest.mark.long
@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-131072, 1, 3, 22))],
    ids=lambda value: str(value),
)
def test_every_level_that_kafka_allows_is_accepted(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT


def test_snappy_is_written_in_blocks_as_snappy_java_frames_them() -> None:
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    size = int.from_bytes(framed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + size])) == TEXT[:32_768]


def test_snappy_is_read_raw_and_in_several_framed_streams() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw) == TEXT
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"one") * 2) == b"oneone"


def test_lz4_blocks_are_independent_and_64_kib_as_java_demands() -> None:
    frame = compress(Codec.LZ4, TEXT)
    info = lz4.frame.get_frame_info(frame)
    assert not info["block_linked"] and info["block_size"] == 65_536
    assert frame[:4] == b"\x04\x22\x4d\x18"


def test_lz4_of_other_libraries_is_read() -> None:
    for options in (
        {"block_linked": True},
        {"content_checksum": True, "block_checksum": True},
        {"store_size": True, "block_size": lz4.frame.BLOCKSIZE_MAX4MB},
    ):
        assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, **options)) == TEXT


def test_concatenated_streams_are_read_as_one() -> None:
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one") + compress(codec, b"two")) == b"onetwo"


_BLOCKS = compress(Codec.SNAPPY, b"")
EMPTY_PARTS = {
    "gzip members": (Codec.GZIP, compress(Codec.GZIP, b"")),
    "lz4 frames": (Codec.LZ4, compress(Codec.LZ4, b"")),
    "snappy streams": (Codec.SNAPPY, _BLOCKS),
}


@pytest.mark.parametrize(("codec", "part"), EMPTY_PARTS.values(), ids=EMPTY_PARTS)
def test_parts_without_content_are_limited_too(codec: Codec, part: bytes) -> None:
    assert bytes(decompress(codec, part * 50 + compress(codec, b"x"), 1)) == b"x"
    assert bytes(decompress(codec, part * 1000 + compress(codec, b"x"))) == b"x"
    with pytest.raises(KafkaError) as caught:
        decompress(codec, part * 1000 + compress(codec, b"x"), 1 << 20)
    assert caught.value.error is Error.INVALID_RECORD


def test_snappy_blocks_without_content_are_limited_too() -> None:
    empty = (1).to_bytes(4, "big") + b"\0"
    assert bytes(decompress(Codec.SNAPPY, _BLOCKS + empty * 50, 0)) == b""
    with pytest.raises(KafkaError) as caught:
        decompress(Codec.SNAPPY, _BLOCKS + empty * 1000, 1 << 20)
    assert caught.value.error is Error.INVALID_RECORD


@each_codec
def test_gzip_and_zstd_announce_their_size(codec: Codec) -> None:
    known = codec in (Codec.GZIP, Codec.ZSTD)
    assert announced_bytes(codec, compress(codec, TEXT)) == (len(TEXT) if known else None)
    assert announced_bytes(codec, b"") is None


def test_a_stream_of_zstd_announces_no_size() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert announced_bytes(Codec.ZSTD, stream) is None


def test_zstd_without_a_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    frame = stream.compress(TEXT) + stream.flush()
    assert zstandard.get_frame_parameters(frame).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(Codec.ZSTD, frame) == TEXT


def test_gzip_of_the_standard_tool_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(TEXT)) == TEXT


@each_codec
def test_exactly_the_limit_is_allowed_and_one_more_is_not(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, len(TEXT))) == len(TEXT)
    with pytest.raises(KafkaError, match="inflate to more than") as raised:
        decompress(codec, packed, len(TEXT) - 1)
    assert raised.value.error is Error.INVALID_RECORD


@each_codec
def test_a_decompression_bomb_is_refused_within_twice_the_limit_of_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit_bytes = 4 << 20
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError, match="inflate to more than"):
            decompress(codec, bomb, limit_bytes)
        assert tracemalloc.get_traced_memory()[1] < 2 * limit_bytes + (1 << 20)
    finally:
        tracemalloc.stop()


@each_codec
def test_the_pieces_together_are_the_data(codec: Codec) -> None:
    chance = random.Random(1)
    for size in (0, 1, 5_000, PIECE_BYTES, 3 * PIECE_BYTES, 1_000_000):
        for data in (bytes(size), chance.randbytes(size), TEXT[:size]):
            packed = compress(codec, data)
            found = list(pieces(codec, packed, size))
            assert b"".join(found) == data
            assert all(len(piece) <= PIECE_BYTES for piece in found)
            twice = packed + packed
            if codec is not Codec.SNAPPY:
                assert b"".join(pieces(codec, twice, 2 * size)) == data + data


def test_zstd_with_a_huge_window_inflates_to_little(monkeypatch: pytest.MonkeyPatch) -> None:
    window = zstandard.ZstdCompressionParameters(window_log=26, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=window).compressobj()
    frame = stream.compress(TEXT) + stream.flush()
    assert b"".join(pieces(Codec.ZSTD, frame, len(TEXT))) == TEXT
    behind = compress(Codec.ZSTD, b"first") + frame
    with pytest.raises(KafkaError, match="too much memory"):
        list(pieces(Codec.ZSTD, behind, 2 * len(TEXT)))
    monkeypatch.setattr("wirekafka.codec.compression._FRUGAL_WINDOW_BYTES", len(TEXT) - 1)
    with pytest.raises(KafkaError, match="inflate to more than"):
        list(pieces(Codec.ZSTD, frame, len(TEXT)))


@each_codec
def test_broken_data_raises_the_codecs_error(codec: Codec) -> None:
    packed = compress(codec, TEXT[:3_000])
    for at in range(0, len(packed), 7):
        for broken in (packed[:at], packed[:at] + b"\xff\xff" + packed[at + 2 :]):
            try:
                decompress(codec, broken, 1 << 20)
            except KafkaError as error:
                assert error.error in (Error.CORRUPT_MESSAGE, Error.INVALID_RECORD)


@each_codec
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_random_data_raises_the_codecs_error_or_is_small(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, 1 << 20)) <= 1 << 20
    except KafkaError as error:
        assert error.error in (Error.CORRUPT_MESSAGE, Error.INVALID_RECORD)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(KafkaError, match=f"Unknown compression type id: {codec}"):
            call(codec, b"")
