"""The transaction index: entries of 34 bytes, and the aborted transactions of a read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.log.aborted_index import (
    ENTRY,
    AbortedIndex,
    AbortedTransaction,
    CorruptIndex,
    aborted_between,
    decode_entries,
)
from wirekafka.log.files import RealDisk

FIRST = AbortedTransaction(7, 0, 9, 5)
SECOND = AbortedTransaction(8, 5, 14, 15)
THIRD = AbortedTransaction(7, 20, 29, 25)


@pytest.fixture
def index(tmp_path: Path) -> AbortedIndex:
    found = AbortedIndex(RealDisk(), str(tmp_path / "0.txnindex"), 0)
    for aborted in (FIRST, SECOND, THIRD):
        found.append(aborted)
    return found


def test_an_entry_is_34_bytes_and_begins_with_version_0(index: AbortedIndex) -> None:
    data = Path(index.path).read_bytes()
    assert len(data) == 3 * 34 == 3 * ENTRY.size
    assert data[:34] == bytes(2) + b"".join(n.to_bytes(8, "big") for n in FIRST)


def test_there_is_no_file_before_the_first_abort(tmp_path: Path) -> None:
    index = AbortedIndex(RealDisk(), str(tmp_path / "0.txnindex"), 0)
    assert index.entries == [] and index.file is None
    index.truncate_to(0)
    index.reset()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_left_by_a_crash_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.touch()
    index = AbortedIndex(RealDisk(), str(path), 0, path.stat().st_size)
    index.append(FIRST)
    index.write()
    assert decode_entries(path.read_bytes()) == [FIRST]


def test_entries_are_read_back(index: AbortedIndex) -> None:
    again = AbortedIndex(RealDisk(), index.path, 0, 102)
    assert again.entries == [FIRST, SECOND, THIRD]
    again.append(AbortedTransaction(1, 30, 31, 32))
    assert len(decode_entries(Path(index.path).read_bytes())) == 4


def test_the_aborted_list_has_every_abort_that_overlaps_the_range(index: AbortedIndex) -> None:
    assert aborted_between([index], 0, 30) == [FIRST, SECOND, THIRD]
    assert aborted_between([index], 10, 30) == [SECOND, THIRD]
    assert aborted_between([index], 9, 10) == [FIRST, SECOND]
    assert aborted_between([index], 0, 5) == [FIRST]
    assert aborted_between([index], 15, 20) == []
    assert aborted_between([index], 30, 40) == []


def test_a_marker_in_a_later_segment_is_found(index: AbortedIndex, tmp_path: Path) -> None:
    later = AbortedIndex(RealDisk(), str(tmp_path / "40.txnindex"), 40)
    far = AbortedTransaction(9, 28, 50, 28)
    later.append(far)
    assert aborted_between([index, later], 25, 30) == [THIRD, far]


def test_the_search_ends_when_the_last_stable_offset_is_beyond_the_end(
    index: AbortedIndex, tmp_path: Path
) -> None:
    class Untouchable(AbortedIndex):
        entries = property(lambda self: pytest.fail("looked into a segment for nothing"))

    later = Untouchable(RealDisk(), str(tmp_path / "40.txnindex"), 40)
    assert aborted_between([index, later], 0, 10) == [FIRST, SECOND]


def test_truncation_drops_markers_at_and_after_the_end(index: AbortedIndex) -> None:
    index.truncate_to(14)
    assert index.entries == [FIRST]
    assert Path(index.path).stat().st_size == 34
    index.append(SECOND)
    assert AbortedIndex(RealDisk(), index.path, 0, 68).entries == [FIRST, SECOND]
    index.reset()
    assert Path(index.path).stat().st_size == 0 and index.entries == []


@pytest.mark.parametrize(
    "data",
    [
        bytes(33),
        ENTRY.pack(1, *FIRST),
        ENTRY.pack(0, *FIRST) * 2,
        ENTRY.pack(0, *SECOND) + ENTRY.pack(0, *FIRST),
        ENTRY.pack(0, 7, 10, 9, 10),
    ],
    ids=["cut", "version 1", "twice", "unordered", "ends before it begins"],
)
def test_an_inconsistent_index_is_corrupt(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(data)
    with pytest.raises(CorruptIndex):
        AbortedIndex(RealDisk(), str(path), 0, len(data)).check()


def test_markers_below_the_segment_are_corrupt(index: AbortedIndex) -> None:
    with pytest.raises(CorruptIndex):
        AbortedIndex(RealDisk(), index.path, 10, 102).check()


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_read_returns_exactly_the_aborts_that_overlap_its_range(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Compared with the definition, over histories of interleaved producers."""
    opened: dict[int, int] = {}
    entries: list[AbortedTransaction] = []
    for offset in range(data.draw(st.integers(0, 40))):
        producer = data.draw(st.integers(1, 3))
        if producer in opened and data.draw(st.booleans()):
            first = opened.pop(producer)
            stable = min(opened.values(), default=offset + 1)
            entries.append(AbortedTransaction(producer, first, offset, stable))
        else:
            opened.setdefault(producer, offset)
    path = tmp_path_factory.mktemp("index") / "0.txnindex"
    index = AbortedIndex(RealDisk(), str(path), 0)
    for entry in entries:
        index.append(entry)
    start = data.draw(st.integers(0, 40))
    end = data.draw(st.integers(start, 41))
    # A reader gets no records above the last stable offset, so later aborts do not matter.
    found = aborted_between([index], start, end)
    assert found == [
        entry for entry in entries if entry.last_offset >= start and entry.first_offset < end
    ]
