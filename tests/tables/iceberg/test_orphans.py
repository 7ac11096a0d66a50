"""Removal of files that nothing references: remains of commits, never files that are needed."""

import time
from contextlib import suppress

import pytest

from tests.tables.iceberg.deaths import Death, death_after, deaths_at_every_step
from tests.tables.iceberg.lake import (
    a_table,
    append,
    assert_holds_its_marks,
    files_in,
    files_of,
    rows,
)
from wirekafka.tables.iceberg import orphans
from wirekafka.tables.iceberg.data_files import write_rows
from wirekafka.tables.iceberg.orphans import OrphanRemoval, remove_orphans

HOUR_MS = 3_600_000
REMOVAL = OrphanRemoval(age_ms=2 * HOUR_MS)


def now_ms():
    return time.time_ns() // 1_000_000


def orphan_files(table, offsets=range(100, 110)):
    """Write files that are not committed."""
    return write_rows(table.table, rows(0, offsets), table.table.schema()).files


def add(table, data_file):
    """Add a file to the table, as somebody else does."""
    transaction = table.table.transaction()
    with transaction.update_snapshot().fast_append() as update:
        update.append_data_file(data_file)
    transaction.commit_transaction()


def test_old_files_that_nothing_references_are_removed(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    orphan_files(table)
    (tmp_path / "redpanda/flights/metadata/00007-x.metadata.json").write_text("{}")
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 2
    assert files_in(tmp_path) == files_of(table)
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 0
    assert assert_holds_its_marks(table) == {0: 10}
    assert append(table, 10, 20) == {0: 20}


def test_files_of_a_commit_under_way_stay(tmp_path):
    table = a_table(tmp_path)
    orphan_files(table)
    assert remove_orphans(table.table, REMOVAL, now_ms() + HOUR_MS) == 0
    # However short the age in the settings is.
    assert remove_orphans(table.table, OrphanRemoval(age_ms=0), now_ms() + HOUR_MS // 2) == 0
    assert len(files_in(tmp_path)) == 1


def test_all_files_of_all_snapshots_stay(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    append(table, 10, 20)
    table.table.delete("value is not null")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 0
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_files_of_others_stay(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    for name in ("data/notes.txt", "data/_SUCCESS", "metadata/version-hint.text", "x.parquet"):
        (tmp_path / "redpanda/flights" / name).touch()
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 0


@pytest.mark.parametrize("reading", [1, 2])
def test_a_file_that_is_committed_at_the_same_time_stays(tmp_path, monkeypatch, reading):
    """Even an old one, which somebody adds to the table."""
    table = a_table(tmp_path)
    append(table, 0, 10)
    (orphan,) = orphan_files(table)
    referenced, readings = orphans._referenced, []

    def adding(*arguments):
        readings.append(arguments)
        if len(readings) == reading:
            add(a_table(tmp_path), orphan)
        return referenced(*arguments)

    monkeypatch.setattr(orphans, "_referenced", adding)
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 0
    table.refresh()
    assert len(files_of(table)) == len(files_in(tmp_path)) == 2


def test_one_step_removes_a_limited_number(tmp_path):
    table = a_table(tmp_path)
    for _ in range(3):
        orphan_files(table)
    removal = OrphanRemoval(age_ms=2 * HOUR_MS, most_at_once=2)
    later_ms = now_ms() + 3 * HOUR_MS
    assert [remove_orphans(table.table, removal, later_ms) for _ in range(3)] == [2, 1, 0]


def test_what_appends_left_that_ended_anywhere_is_removed(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    for count in range(0, 12, 2):
        end = table.refresh().ends[0]
        with death_after(count), suppress(Death):
            append(a_table(tmp_path), end, end + 10)
    table.refresh()
    remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS)
    assert files_in(tmp_path) == files_of(table)
    assert_holds_its_marks(table)


def test_a_removal_that_ends_anywhere_is_done_by_the_next(tmp_path):
    table = a_table(tmp_path)
    append(table, 0, 10)
    orphan_files(table)
    orphan_files(table)
    later_ms = now_ms() + 3 * HOUR_MS
    for _ in deaths_at_every_step(lambda: remove_orphans(table.table, REMOVAL, later_ms)):
        assert assert_holds_its_marks(table) == {0: 10}
    assert files_in(tmp_path) == files_of(table)


def test_the_location_may_be_written_in_other_ways(tmp_path):
    """Spark writes file:/tmp/x for file:///tmp/x, and s3a for s3."""
    table = a_table(tmp_path)
    append(table, 0, 10)
    (orphan,) = orphan_files(table)
    orphan[1] = orphan.file_path.replace("file://", "file:")
    add(table, orphan)
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 0


def test_a_location_that_cannot_be_listed_is_left_alone(tmp_path, monkeypatch):
    table = a_table(tmp_path)
    orphan_files(table)
    monkeypatch.setattr(orphans, "PyArrowFileIO", type("Other", (), {}))
    assert remove_orphans(table.table, REMOVAL, now_ms() + 3 * HOUR_MS) == 0
    assert len(files_in(tmp_path)) == 1
