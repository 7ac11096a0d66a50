"""Expiry: old snapshots end with the files that only they need, and nothing else does."""

from pyiceberg.catalog.sql import SqlCatalog

from tests.tables.iceberg.deaths import deaths_at_every_step
from tests.tables.iceberg.lake import (
    a_table,
    append,
    assert_holds_its_marks,
    files_in,
    files_of,
    rows,
)
from wirekafka.tables.iceberg import expiry
from wirekafka.tables.iceberg.expiry import SnapshotRetention, expire_snapshots, expired_snapshots
from wirekafka.tables.iceberg.live_files import live_files
from wirekafka.tables.iceberg.marks import TAG, marked_snapshot
from wirekafka.tables.iceberg.references import References
from wirekafka.tables.iceberg.small_files import Compaction, FileSizes

NEWEST_ONLY = SnapshotRetention(max_age_ms=0, min_count=1, min_age_ms=0)
DAY_MS = 24 * 3_600_000


def now_ms(table):
    """A moment after the newest snapshot."""
    table.refresh()
    return table.table.metadata.last_updated_ms + 1


def with_compaction(directory):
    """A table of one file, whose three older snapshots have three others."""
    table = a_table(directory)
    for start in (0, 10, 20):
        append(table, start, start + 10)
    compaction = Compaction(FileSizes(fewest_files=2))
    assert compaction.merge(table, live_files(table.table)) == 3
    return table


def snapshots_of(table):
    table.refresh()
    return [each.snapshot_id for each in table.table.snapshots()]


def assert_no_file_is_left_over(table, directory):
    """Assert that the directory has the files that the snapshots reference, and no others."""
    table.refresh()
    references = References()
    references.add(table.table.metadata, table.table.io)
    needed = {each.removeprefix("file://") for each in references.locations()}
    assert {str(path) for path in files_in(directory)} <= needed
    assert {str(path) for path in directory.rglob("*.avro")} == {
        each for each in needed if each.endswith(".avro")
    }


def test_old_snapshots_end_with_their_files(tmp_path):
    table = with_compaction(tmp_path)
    marks = table.refresh()
    done = expire_snapshots(table.table, NEWEST_ONLY, now_ms(table))
    # Three data files, four lists of manifests but the newest one's, manifests.
    assert (done.snapshots, len(files_in(tmp_path))) == (3, 1)
    assert len(snapshots_of(table)) == 1
    assert_no_file_is_left_over(table, tmp_path)
    assert table.refresh() == marks
    assert assert_holds_its_marks(table) == {0: 30}
    assert append(table, 30, 40) == {0: 40}


def test_files_that_a_newer_snapshot_still_has_stay(tmp_path):
    table = a_table(tmp_path)
    for start in (0, 10, 20):
        append(table, start, start + 10)
    assert expire_snapshots(table.table, NEWEST_ONLY, now_ms(table)).snapshots == 2
    assert len(files_in(tmp_path)) == 3
    assert_no_file_is_left_over(table, tmp_path)
    assert assert_holds_its_marks(table) == {0: 30}


def test_snapshots_stay_by_age_and_number(tmp_path):
    table = with_compaction(tmp_path)
    moment_ms, oldest = now_ms(table), snapshots_of(table)
    for retention, later_ms, count in [
        (SnapshotRetention(), 0, 0),
        (SnapshotRetention(), 8 * DAY_MS, 0),
        (SnapshotRetention(min_count=2), 6 * DAY_MS, 0),
        (SnapshotRetention(min_count=2), 8 * DAY_MS, 2),
        (SnapshotRetention(min_count=1, max_count=3), DAY_MS, 1),
        # Queries may still read what is a moment old.
        (SnapshotRetention(min_count=1, max_count=3), 0, 0),
        (SnapshotRetention(min_count=1, most_at_once=2), 8 * DAY_MS, 2),
    ]:
        expired = expired_snapshots(table.table.metadata, retention, moment_ms + later_ms)
        assert [each.snapshot_id for each in expired] == oldest[:count], (retention, later_ms)


def test_the_tables_own_properties_go_before(tmp_path):
    table = with_compaction(tmp_path)
    with table.table.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": str(2 * DAY_MS)})
    retention = SnapshotRetention(min_count=1, max_count=2)

    def count(later_ms):
        return len(expired_snapshots(table.table.metadata, retention, now_ms(table) + later_ms))

    assert (count(DAY_MS), count(3 * DAY_MS)) == (0, 3)
    with table.table.transaction() as transaction:
        transaction.set_properties({"history.expire.min-snapshots-to-keep": "3"})
    assert count(3 * DAY_MS) == 1


def test_branches_and_tags_of_others_keep_their_snapshots(tmp_path):
    table = with_compaction(tmp_path)
    first, second, *_ = snapshots_of(table)
    table.table.manage_snapshots().create_tag(first, "audit").commit()
    table.table.manage_snapshots().create_branch(second, "trial").commit()
    assert expire_snapshots(table.table, NEWEST_ONLY, now_ms(table)).snapshots == 1
    kept = [table.table.scan(snapshot_id=each).to_arrow() for each in (first, second)]
    assert [each.num_rows for each in kept] == [10, 20]
    assert_no_file_is_left_over(table, tmp_path)


def test_the_newest_marks_stay_below_snapshots_of_others(tmp_path):
    table = with_compaction(tmp_path)
    for offset in range(3):
        table.table.append(rows(9, [offset]))
    marked = marked_snapshot(table.table.metadata)
    assert expire_snapshots(table.table, NEWEST_ONLY, now_ms(table)).snapshots == 3
    assert marked_snapshot(table.table.metadata) == marked
    assert table.table.refs()[TAG].snapshot_id == marked.snapshot_id
    assert append(table, 30, 40) == {0: 40}


def test_an_append_before_the_files_are_deleted_keeps_what_it_needs(tmp_path, monkeypatch):
    table = with_compaction(tmp_path)
    delete = expiry._delete_unreferenced

    def delete_unreferenced(*arguments):
        append(a_table(tmp_path), 30, 40)
        return delete(*arguments)

    monkeypatch.setattr(expiry, "_delete_unreferenced", delete_unreferenced)
    expire_snapshots(table.table, NEWEST_ONLY, now_ms(table))
    table.refresh()
    assert_no_file_is_left_over(table, tmp_path)
    assert assert_holds_its_marks(table) == {0: 40}


def test_an_append_before_the_expiry_is_committed_stays(tmp_path, monkeypatch):
    table = with_compaction(tmp_path)
    commit_table = SqlCatalog.commit_table

    def commit(*arguments):
        monkeypatch.undo()
        append(a_table(tmp_path), 30, 40)
        return commit_table(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit)
    assert expire_snapshots(table.table, NEWEST_ONLY, now_ms(table)).snapshots == 3
    assert len(snapshots_of(table)) == 2
    assert_no_file_is_left_over(table, tmp_path)
    assert assert_holds_its_marks(table) == {0: 40}


def test_of_two_expiries_of_the_same_snapshots_one_gives_up(tmp_path, monkeypatch):
    table = with_compaction(tmp_path)
    plan = expiry.expired_snapshots

    def expired(*arguments):
        monkeypatch.undo()
        found = plan(*arguments)
        assert expire_snapshots(a_table(tmp_path).table, NEWEST_ONLY, now_ms(table)).snapshots == 3
        return found

    moment_ms = now_ms(table)
    monkeypatch.setattr(expiry, "expired_snapshots", expired)
    assert expire_snapshots(table.table, NEWEST_ONLY, moment_ms).snapshots == 0
    assert assert_holds_its_marks(table) == {0: 30}


def test_an_expiry_that_ends_anywhere_leaves_the_rows_whole(tmp_path):
    table = with_compaction(tmp_path)
    moment_ms = now_ms(table)
    for _ in deaths_at_every_step(
        lambda: expire_snapshots(a_table(tmp_path).table, NEWEST_ONLY, moment_ms)
    ):
        assert assert_holds_its_marks(table) == {0: 30}
        assert len(files_of(table)) == 1
    assert len(snapshots_of(table)) == 1
