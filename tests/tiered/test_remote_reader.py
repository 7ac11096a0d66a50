"""Remote segments are read as local ones are: by offset, by timestamp, and with few requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.tiered.tiered_log import CONFIG, NOW_MS, TieredLog
from wirekafka.codec.batch import batches
from wirekafka.tiered.byte_cache import ByteCache
from wirekafka.tiered.chunked_layout import ChunkedLayout, ChunkOptions
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import LocalLayout
from wirekafka.tiered.remote_reader import RemoteReader
from wirekafka.tiered.remote_segment import RemoteSegment
from wirekafka.tiered.store import Store, StoreError

LAYOUTS: dict[str, Callable[[Store], Layout]] = {
    "local": LocalLayout,
    "chunks": lambda store: ChunkedLayout(store, ChunkOptions(chunk_bytes=500)),
    "compressed chunks": lambda store: ChunkedLayout(
        store, ChunkOptions(chunk_bytes=500, key_prefix="in/here/", compresses=True)
    ),
}


@pytest.fixture(params=LAYOUTS)
def tiered(tmp_path: Path, request: pytest.FixtureRequest) -> TieredLog:
    found = TieredLog(tmp_path, layout=LAYOUTS[request.param])
    found.append(50)
    assert found.copy() > 2
    return found


@pytest.fixture
def reader(tiered: TieredLog) -> RemoteReader:
    return RemoteReader(tiered.layout, index_bytes=1 << 20, chunk_bytes=1 << 20)


def test_every_offset_is_read_with_the_bytes_of_the_local_log(
    tiered: TieredLog, reader: RemoteReader
) -> None:
    log = tiered.log
    for segment in tiered.states:
        for offset in range(segment.start_offset, segment.end_offset):
            for max_bytes in (1, 300, 700, 100_000):
                found = reader.read(segment, offset, max_bytes, at_least_one=True)
                end_offset = segment.end_offset
                expected = log.load(log.read(offset, max_bytes, end_offset=end_offset))
                assert bytes(found.records) == expected
                whole = [header.end_offset for _, header in batches(memoryview(expected))]
                assert found.end_offset == whole[-1]


def test_a_batch_that_is_too_large_is_left_out_if_others_have_been_read(
    tiered: TieredLog, reader: RemoteReader
) -> None:
    segment = next(iter(tiered.states))
    assert not reader.read(segment, 0, 10, at_least_one=False).records


def test_every_timestamp_is_found_as_in_the_local_log(
    tiered: TieredLog, reader: RemoteReader
) -> None:
    segments = tiered.states.in_lineage(tiered.log.epochs.entries, tiered.log.end_offset)
    for timestamp in range(NOW_MS - 1, NOW_MS + segments[-1].end_offset):
        found = [reader.first_at_or_after(each, timestamp, 0) for each in segments]
        remote = next((each for each in found if each is not None), None)
        assert remote == tiered.log.offset_for_timestamp(timestamp)


def test_records_below_the_log_start_are_not_found_by_their_timestamps(
    tiered: TieredLog, reader: RemoteReader
) -> None:
    segment = next(iter(tiered.states))
    found = reader.first_at_or_after(segment, NOW_MS, 3)
    assert found is not None
    assert found.offset == 3


def test_what_has_been_read_once_is_in_the_caches(tiered: TieredLog, reader: RemoteReader) -> None:
    segment = next(iter(tiered.states))
    reader.read(segment, 0, 500, at_least_one=True)
    before = len(tiered.store.requests)
    reader.read(segment, 2, 500, at_least_one=True)
    assert len(tiered.store.requests) == before
    reader.forget(segment.id)
    reader.read(segment, 2, 500, at_least_one=True)
    assert before + 2 <= len(tiered.store.requests) <= before + 3


def test_a_failure_of_the_store_is_reported_and_not_remembered(
    tiered: TieredLog, reader: RemoteReader
) -> None:
    segment = next(iter(tiered.states))
    tiered.store.failures = 1
    with pytest.raises(StoreError, match="not available"):
        reader.read(segment, 0, 500, at_least_one=True)
    assert reader.read(segment, 0, 500, at_least_one=True).records


def test_a_segment_that_has_been_cut_off_is_an_error_of_the_store(
    tiered: TieredLog, reader: RemoteReader
) -> None:
    segment = next(iter(tiered.states))
    key = next(each for each in tiered.store.objects if each.endswith(".log"))
    tiered.store.objects[key] = tiered.store.objects[key][:10]
    with pytest.raises(StoreError, match=r"are left|is damaged"):
        reader.read(segment, 0, 500, at_least_one=True)


def test_aborted_transactions_are_found_in_later_segments(tmp_path: Path) -> None:
    tiered = TieredLog(tmp_path, CONFIG)
    reader = RemoteReader(tiered.layout, index_bytes=1 << 20, chunk_bytes=1 << 20)
    tiered.append(30)
    tiered.copy()
    segments = tiered.states.in_lineage(tiered.log.epochs.entries, tiered.log.end_offset)
    assert all(each.has_no_transactions for each in segments)
    assert not any(key.endswith(".txnindex") for key in tiered.store.objects)
    before = len(tiered.store.requests)
    assert reader.aborted(segments, 0, 5) == ([], False)
    assert len(tiered.store.requests) == before


def test_equal_reads_at_the_same_time_are_one() -> None:
    cache, begun, go_on = ByteCache(100), Event(), Event()
    loads = []

    def load() -> bytes:
        loads.append(1)
        begun.set()
        go_on.wait()
        return b"data"

    threads = [Thread(target=cache.get, args=("key", load)) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_the_entries_that_were_used_least_recently_make_room() -> None:
    cache = ByteCache(10)
    for key in "abc":
        cache.get(key, lambda: bytes(4))
        cache.get("a", lambda: bytes(4))
    assert "a" in cache and "c" in cache and "b" not in cache
    assert cache.size_bytes == 8


def test_objects_that_have_been_damaged_are_errors_of_the_store(tiered: TieredLog) -> None:
    segment = next(iter(tiered.states))
    for key, data in list(tiered.store.objects.items()):
        other_end = data[:-20] + b"\xff" * len(data[-20:])
        same_size = (bytes(len(data)), b"\xff" * len(data), other_end)
        for damaged in (b"", data[:-1], data[1:], *same_size):
            tiered.store.objects[key] = damaged
            _use_all(tiered, segment)
        tiered.store.objects[key] = data


def test_a_manifest_of_a_smaller_file_is_an_error_of_the_store(tmp_path: Path) -> None:
    tiered = TieredLog(tmp_path, layout=LAYOUTS["compressed chunks"])
    tiered.append(50)
    tiered.copy()
    segment = next(iter(tiered.states))
    with pytest.raises(StoreError):
        tiered.layout.read(segment, 0, segment.size_bytes + 1_000)


def _use_all(tiered: TieredLog, segment: RemoteSegment) -> None:
    """Each use of a segment succeeds or raises StoreError."""
    layout = tiered.new_layout(tiered.store)  # Without a cached manifest.
    uses: tuple[Callable[[RemoteReader], object], ...] = (
        lambda reader: reader.read(segment, segment.end_offset - 1, 5_000, at_least_one=True),
        lambda reader: reader.first_at_or_after(segment, segment.max_timestamp_ms, 0),
        lambda reader: reader.aborted([segment], 0, segment.end_offset),
        lambda reader: reader.epochs(segment),
        lambda reader: reader.producers(segment),
    )
    for use in uses:
        with suppress(StoreError):
            use(RemoteReader(layout, index_bytes=1 << 20, chunk_bytes=1 << 20))
