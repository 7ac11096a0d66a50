"""What a power cut finds: each file that the catalog names was synced before, and its name too."""

from pathlib import Path

import pytest
from sqlalchemy import event

from tests.tables.iceberg.lake import a_table, append, assert_holds_its_marks
from wirekafka.log.files import RealDisk
from wirekafka.tables.iceberg.problems import CatalogProblem


def test_all_files_are_on_the_medium_before_the_catalog_names_them(tmp_path, monkeypatch):
    synced: set[Path] = set()
    monkeypatch.setattr(RealDisk, "fsync", lambda _, path: synced.add(Path(path)))
    monkeypatch.setattr(RealDisk, "fsync_directory", lambda _, path: synced.add(Path(path)))
    table = a_table(tmp_path)
    lacking = []

    def check(connection):
        lacking.append(set((tmp_path / "redpanda").rglob("*")) - synced)

    event.listen(table.catalog.engine, "commit", check)
    append(table, 0, 100)
    append(table, 100, 200)
    assert lacking and not any(lacking)
    assert assert_holds_its_marks(table) == {0: 200}


def test_a_failed_sync_is_a_passing_problem_and_nothing_is_committed(tmp_path, monkeypatch):
    table = a_table(tmp_path)

    def fsync(disk, path):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "fsync", fsync)
        with pytest.raises(CatalogProblem, match=r"redpanda\.flights: .*Input/output error"):
            append(table, 0, 100)
    assert assert_holds_its_marks(table) == {}
    assert append(table, 0, 100) == {0: 100}
