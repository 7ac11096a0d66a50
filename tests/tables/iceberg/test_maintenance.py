"""When a table's maintenance is due, and what its steps do."""

import pytest

from tests.tables.iceberg.lake import a_table, append, assert_holds_its_marks, files_in, files_of
from wirekafka.tables.iceberg import maintenance
from wirekafka.tables.iceberg.expiry import SnapshotRetention
from wirekafka.tables.iceberg.maintenance import Maintained, Maintenance, MaintenanceSettings
from wirekafka.tables.iceberg.problems import CatalogProblem
from wirekafka.tables.iceberg.small_files import FileSizes

MINUTE_MS = 60_000
SETTINGS = MaintenanceSettings(
    sizes=FileSizes(fewest_files=2),
    retention=SnapshotRetention(max_age_ms=0, min_count=1, min_age_ms=0),
)


def steps(due, table, now_ms):
    """What all steps do that are due."""
    found = []
    while due.is_due(now_ms):
        found.append(due.step(table, now_ms))
    return found


def test_files_are_merged_before_snapshots_expire(tmp_path):
    table = a_table(tmp_path)
    for start in (0, 30, 60, 90):
        append(table, start, start + 30)
    opened_ms = table.table.metadata.last_updated_ms + MINUTE_MS
    due = Maintenance(SETTINGS, opened_ms)
    assert not due.is_due(opened_ms - 1)
    done = steps(due, table, opened_ms)
    assert sum(each.merged_files for each in done) == 4
    assert sum(each.expired_snapshots for each in done) == 5
    assert files_in(tmp_path) == files_of(table) and len(files_of(table)) == 2
    assert assert_holds_its_marks(table) == {0: 120}
    assert steps(due, table, opened_ms + 9 * MINUTE_MS) == []


def test_each_kind_is_due_by_its_interval(tmp_path):
    due = Maintenance(SETTINGS, 0)
    table = a_table(tmp_path)
    times = [minute for minute in range(0, 240, 5) if steps(due, table, minute * MINUTE_MS)]
    assert times == list(range(0, 240, 10))


def test_orphans_are_removed_once_a_day_but_not_at_once(tmp_path, monkeypatch):
    removals = []
    monkeypatch.setattr(maintenance, "remove_orphans", lambda *_: removals.append(1) or 0)
    due, table = Maintenance(SETTINGS, 0), a_table(tmp_path)
    counts = []
    for hour in (0, 1, 24, 25, 49):
        steps(due, table, hour * 60 * MINUTE_MS)
        counts.append(len(removals))
    assert counts == [0, 1, 1, 2, 3]


def test_a_step_that_fails_is_tried_again_at_its_interval(tmp_path, monkeypatch):
    due, table = Maintenance(SETTINGS, 0), a_table(tmp_path)

    def fails(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(maintenance, "expire_snapshots", fails)
    assert due.step(table, 0) == Maintained()
    with pytest.raises(CatalogProblem, match="no route to host"):
        due.step(table, 0)
    assert not due.is_due(0)
    monkeypatch.undo()
    assert steps(due, table, 30 * MINUTE_MS) == [Maintained(), Maintained()]
