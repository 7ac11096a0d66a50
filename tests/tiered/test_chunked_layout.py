"""Aiven's layout: manifests as its plugin writes them, chunks of any size, what failures leave."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiered.test_metadata_record import SEGMENT
from tests.tiered.tiered_log import TieredLog
from wirekafka.log.epochs import EpochEntry
from wirekafka.tiered.chunk_manifest import (
    ChunkIndex,
    ChunkManifest,
    Extent,
    decode_sizes,
    encode_sizes,
)
from wirekafka.tiered.chunked_layout import ChunkedLayout, ChunkOptions, described, segment_in
from wirekafka.tiered.layout import IndexKind
from wirekafka.tiered.store import DamagedObject, StoreError

THEIRS = (
    '{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":100,"originalFileSize":1000,'
    '"transformedChunkSize":110,"finalTransformedChunkSize":110},"segmentIndexes":{'
    '"offset":{"position":0,"size":1},"timestamp":{"position":1,"size":1},'
    '"producerSnapshot":{"position":2,"size":1},"leaderEpoch":{"position":3,"size":1},'
    '"transaction":null},"compression":false,"remoteLogSegmentMetadata":{"remoteLogSegmentId":{'
    '"topicIdPartition":{"topicId":"lZ6vvmajTWKDBUTV6SQAtQ","topicPartition":{"topic":"topic1",'
    '"partition":42}},"id":"adh9f8BMS4anaUnD8KWfWg"},"startOffset":0,"endOffset":1000,'
    '"maxTimestampMs":1000000000,"brokerId":2,"eventTimestampMs":2000000000,'
    '"segmentLeaderEpochs":{"0":100,"1":200,"2":300}}}'
)
"""A manifest in the form of the tests of Aiven's plugin."""
MANIFEST = ChunkManifest(
    chunks=ChunkIndex(100, 1_000, [110] * 10, True),
    indexes={
        IndexKind.OFFSET: Extent(0, 1),
        IndexKind.TIMESTAMP: Extent(1, 1),
        IndexKind.PRODUCER_SNAPSHOT: Extent(2, 1),
        IndexKind.LEADER_EPOCH: Extent(3, 1),
    },
    is_compressed=False,
)


def test_a_manifest_has_the_bytes_of_aivens() -> None:
    segment = replace(SEGMENT, epochs=(EpochEntry(0, 100), EpochEntry(1, 200), EpochEntry(2, 300)))
    assert MANIFEST.encode(described(segment)).decode() == THEIRS
    assert ChunkManifest.decode(THEIRS.encode()) == MANIFEST


def test_a_manifest_describes_its_segment() -> None:
    segment = segment_in(THEIRS.encode(), SEGMENT.partition, SEGMENT.id)
    assert (segment.start_offset, segment.end_offset, segment.size_bytes) == (0, 1_001, 1_000)
    assert segment.epochs == (EpochEntry(0, 100), EpochEntry(1, 200), EpochEntry(2, 300))
    assert (segment.max_timestamp_ms, segment.event_ms) == (1_000_000_000, 2_000_000_000)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"startOffset":0', '"startOffset":"first"'),
        ('"startOffset":0', '"startOffset":null'),
        ('"endOffset":1000', '"endOffset":[]'),
        ('"maxTimestampMs":1000000000', '"maxTimestampMs":{}'),
        ('{"0":100,"1":200,"2":300}', '{"0":"all"}'),
        ('{"0":100,"1":200,"2":300}', "[]"),
        ('"brokerId":2,', ""),
        ("remoteLogSegmentMetadata", "metadata"),
    ],
)
def test_a_manifest_that_describes_no_segment_is_damaged(right: str, wrong: str) -> None:
    assert right in THEIRS
    with pytest.raises(DamagedObject, match="a manifest is damaged"):
        segment_in(THEIRS.replace(right, wrong).encode(), SEGMENT.partition, SEGMENT.id)


def test_chunks_of_several_sizes_are_in_the_manifest() -> None:
    sizes = [90, 95, 70, 100, 99, 98, 97, 96, 95, 12]
    manifest = replace(MANIFEST, chunks=ChunkIndex(100, 1_000, sizes, False), is_compressed=True)
    assert ChunkManifest.decode(manifest.encode({})) == manifest


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_sizes_survive(sizes: list[int]) -> None:
    assert decode_sizes(encode_sizes(sizes)) == sizes


def test_sizes_have_the_bytes_of_aivens() -> None:
    assert encode_sizes([]).hex() == "00000000"
    assert encode_sizes([213]).hex() == "00000001000000d5"
    # 1000000, 1000010 and 1000020, of which the last is not a difference.
    assert encode_sizes([1_000_000, 1_000_010, 1_000_020]).hex() == (
        "00000003" + "000f4240" + "01" + "000a" + "000f4254"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"not json",
        THEIRS.replace('"1"', '"2"').encode(),
        THEIRS.replace('"fixed"', '"other"').encode(),
        THEIRS.replace('"originalChunkSize":100', '"originalChunkSize":0').encode(),
        b"[]",
    ],
)
def test_a_damaged_manifest_is_an_error_of_the_store(data: bytes) -> None:
    with pytest.raises(StoreError):
        ChunkManifest.decode(data)


def test_a_segment_is_three_objects_the_manifest_last(tmp_path: Path) -> None:
    options = ChunkOptions(chunk_bytes=500, key_prefix="pre/")
    tiered = TieredLog(tmp_path, layout=lambda store: ChunkedLayout(store, options))
    tiered.append(20)
    tiered.copy()
    first = tiered.store.requests[:3]
    assert [request.rpartition(".")[2] for request in first] == ["log", "indexes", "rsm-manifest"]
    assert all(key.startswith("pre/t-aWlpaWlpaWlpaWlpaWlpaQ/0/") for key in tiered.store.objects)
    for segment in list(tiered.states):
        tiered.layout.delete(segment)
    assert tiered.store.objects == {}


def test_a_segment_that_is_compressed_already_is_spared(tmp_path: Path) -> None:
    options = ChunkOptions(chunk_bytes=500, compresses=True, spares_compressed=True)
    for codec, is_compressed in ((0, True), (4, False)):
        tiered = TieredLog(
            tmp_path / str(codec), layout=lambda store: ChunkedLayout(store, options)
        )
        tiered.append(60, compression=codec)
        tiered.log.roll(0)
        tiered.copy()
        manifests = [
            json.loads(data)
            for key, data in tiered.store.objects.items()
            if key.endswith("manifest")
        ]
        assert {each["compression"] for each in manifests} == {is_compressed}
