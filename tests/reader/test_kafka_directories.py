"""Log directories of every Kafka since 3.3 are read as they are, by any of the reader's ways."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.directories import contents
from wirekafka.reader import Log, OffsetRange, Timestamp


@pytest.fixture(params=contents.VERSIONS)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(contents.archive(request.param)) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


def test_a_directory_of_any_release_is_read_without_a_change(directory: Path) -> None:
    before = _state(directory)
    with Log.open(directory) as log:
        assert {contents.EVENTS, contents.LEDGER, contents.TABLE} <= set(log.topics())
        assert log.partitions(contents.EVENTS) == [0]
        rows = [row for batch in log.batches(contents.EVENTS) for row in batch.to_pylist()]
        found = [(_ms(row["timestamp"]), row["key"], row["value"]) for row in rows]
        assert found == contents.events()
        assert [row["offset"] for row in rows] == list(range(len(rows)))
        assert {row["topic"] for row in rows} == {contents.EVENTS}
        table = [row for batch in log.batches(contents.TABLE) for row in batch.to_pylist()]
        assert [(row["key"], row["value"]) for row in table] == list(contents.TABLE_RECORDS)
    assert _state(directory) == before


def test_what_was_aborted_is_left_out(directory: Path) -> None:
    with Log.open(directory) as log:
        assert log.offsets(contents.LEDGER, 0) == OffsetRange(0, 8)
        assert _values(log) == list(contents.COMMITTED)
        everything = _values(log, isolation="read_uncommitted")
        assert sorted(everything) == sorted(contents.COMMITTED + contents.ABORTED)


def test_parts_of_a_directory_are_read_by_offsets_and_by_time(directory: Path) -> None:
    events = contents.events()
    with Log.open(directory) as log:
        offset = log.offset_for_time(contents.EVENTS, 0, events[4][0] - 1)
        assert offset == 4
        assert log.offset_for_time(contents.EVENTS, 0, events[-1][0] + 1) is None
        chosen = _values(log, contents.EVENTS, start={0: 2}, end={0: 7})
        assert chosen == [value for _, _, value in events[2:7]]
        start = datetime.fromtimestamp(events[5][0] / 1000, UTC)
        chosen = _values(log, contents.EVENTS, start=start, end=Timestamp(events[9][0]))
        assert chosen == [value for _, _, value in events[5:9]]


def _values(log: Log, topic: str = contents.LEDGER, **arguments: object) -> list[bytes]:
    found = log.batches(topic, columns=["value"], **arguments)  # type: ignore[arg-type]
    return [value for batch in found for value in batch.column("value").to_pylist()]


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _state(directory: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of change of each file."""
    return {
        path.relative_to(directory).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
    }
