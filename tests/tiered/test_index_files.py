"""Indexes of remote segments are kept in files: bounded, whole, and while they are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tiered.tiered_log import NOW_MS, TieredLog
from wirekafka.log.files import RealDisk
from wirekafka.tiered.index_files import IndexFiles
from wirekafka.tiered.layout import IndexKind
from wirekafka.tiered.local_layout import id_text
from wirekafka.tiered.remote_reader import RemoteReader
from wirekafka.tiered.remote_segment import RemoteSegment

_MANY = 1 << 20


@pytest.fixture
def tiered(tmp_path: Path) -> TieredLog:
    found = TieredLog(tmp_path)
    found.append(50)
    assert found.copy() > 2
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "remote-log-index-cache"


def _reader(tiered: TieredLog, folder: Path, limit_bytes: int = _MANY) -> RemoteReader:
    """A reader as after a start, with nothing in memory."""
    files = IndexFiles(RealDisk(), str(folder), limit_bytes)
    return RemoteReader(tiered.layout, index_bytes=_MANY, chunk_bytes=_MANY, files=files)


def _read(reader: RemoteReader, segment: RemoteSegment) -> None:
    assert reader.read(segment, segment.start_offset + 3, 500, at_least_one=True).records


def _indexes_loaded(tiered: TieredLog) -> int:
    return sum("index" in request.partition(".")[2] for request in tiered.store.requests)


def test_files_have_kafkas_names_and_the_bytes_of_the_store(
    tiered: TieredLog, folder: Path
) -> None:
    _, segment, *_ = tiered.states
    reader = _reader(tiered, folder)
    _read(reader, segment)
    reader.first_at_or_after(segment, NOW_MS + segment.start_offset + 1, 0)
    name = f"{segment.start_offset}_{id_text(segment.id)}"
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert kept == {
        f"{name}.index": bytes(tiered.layout.index(segment, IndexKind.OFFSET)),
        f"{name}.timeindex": bytes(tiered.layout.index(segment, IndexKind.TIMESTAMP)),
    }


def test_a_restart_loads_no_index_again(tiered: TieredLog, folder: Path) -> None:
    segments = list(tiered.states)
    for segment in segments:
        _read(_reader(tiered, folder), segment)
    before = _indexes_loaded(tiered)
    for segment in segments:
        _read(_reader(tiered, folder), segment)
    assert _indexes_loaded(tiered) == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-3], id="cut off"),
        pytest.param(lambda data: bytes(len(data)), id="zeros"),
        pytest.param(lambda data: data[8:16] + data[:8] + data[16:], id="out of order"),
        pytest.param(lambda data: data[:-4] + b"\x7f\xff\xff\xff", id="beyond the segment"),
    ],
)
def test_a_damaged_file_is_loaded_again(
    tiered: TieredLog, folder: Path, damage, caplog: pytest.LogCaptureFixture
) -> None:
    segment, *_ = tiered.states
    _read(_reader(tiered, folder), segment)
    [path] = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    _read(_reader(tiered, folder), segment)
    assert path.read_bytes() == whole
    assert "is damaged" in caplog.text


def test_the_files_that_were_used_least_recently_make_room(tiered: TieredLog, folder: Path) -> None:
    first, second, third, *_ = tiered.states
    size_bytes = len(bytes(tiered.layout.index(first, IndexKind.OFFSET)))
    files = IndexFiles(RealDisk(), str(folder), 2 * size_bytes + size_bytes // 2)

    def use(segment: RemoteSegment) -> None:
        kind = IndexKind.OFFSET
        files.get(segment, kind, lambda: tiered.layout.index(segment, kind))

    for segment in (first, second, first, third):
        use(segment)
    assert _kept(folder) == {id_text(first.id), id_text(third.id)}
    files.limit(size_bytes)
    assert _kept(folder) == {id_text(third.id)}
    files.limit(1)
    use(first)  # It is larger than the limit.
    assert _kept(folder) == set() and files.size_bytes == 0


def test_a_start_takes_over_the_newest_files_and_removes_those_that_are_incomplete(
    tiered: TieredLog, folder: Path
) -> None:
    first, second, *_ = tiered.states
    for age, segment in enumerate((second, first)):
        _read(_reader(tiered, folder), segment)
        [path] = folder.glob(f"*{id_text(segment.id)}*")
        os.utime(path, (age, age))
    for name in ("7_x.index.tmp", "7_x.timeindex.deleted", "noise"):
        (folder / name).write_bytes(b"x")
    size_bytes = len(bytes(tiered.layout.index(first, IndexKind.OFFSET)))
    IndexFiles(RealDisk(), str(folder), size_bytes)
    assert _kept(folder) == {id_text(first.id)}


def test_files_of_deleted_segments_are_removed(tiered: TieredLog, folder: Path) -> None:
    first, second, *_ = tiered.states
    reader = _reader(tiered, folder)
    for segment in (first, second):
        _read(reader, segment)
    reader.forget(first.id)
    assert _kept(folder) == {id_text(second.id)}


def test_files_that_were_not_used_for_a_while_are_removed(tiered: TieredLog, folder: Path) -> None:
    first, second, *_ = tiered.states
    for segment in (first, second):
        _read(_reader(tiered, folder), segment)
    reader = _reader(tiered, folder)
    reader.drop_unused_files()  # The start counts as a use.
    _read(reader, second)
    reader.drop_unused_files()
    assert _kept(folder) == {id_text(second.id)}
    _read(reader, second)
    reader.drop_unused_files()  # It was used, but from memory.
    assert _kept(folder) == {id_text(second.id)}


def test_segments_are_read_without_a_usable_folder(
    tiered: TieredLog, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_bytes(b"no directory")
    for segment in tiered.states:
        _read(_reader(tiered, folder), segment)
    assert "are not kept on the disk" in caplog.text


def _kept(folder: Path) -> set[str]:
    """The segments that have files."""
    return {path.name.partition("_")[2].partition(".")[0] for path in folder.iterdir()}
