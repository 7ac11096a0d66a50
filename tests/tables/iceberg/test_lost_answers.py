"""Catalogs that answer late, wrongly or never: whatever they did is in the marks."""

import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ServiceUnavailableError,
)
from pyiceberg.io.pyarrow import PyArrowFile
from requests import ConnectionError, ReadTimeout
from sqlalchemy.exc import OperationalError

from tests.tables.iceberg.lake import (
    a_table,
    append,
    assert_holds_its_marks,
    files_in,
    files_of,
    rows,
)
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.problems import CatalogProblem, MarksMoved, WrongTable

PASSING = [
    CommitStateUnknownException("504"),
    ConnectionError("reset"),
    ReadTimeout("30 s"),
    ServiceUnavailableError("503"),
    OperationalError("UPDATE", {}, Exception("database is locked")),
    OSError("connection reset"),
]
KINDS = [type(error).__name__ for error in PASSING]


class Catalog:
    """Stands before a catalog; each commit does the next thing that the test wants."""

    def __init__(self, directory):
        self._catalog = open_catalog(str(directory))
        self.steps = []
        self.late = []
        self.commits = 0

    def __getattr__(self, name):
        return getattr(self._catalog, name)

    def load_table(self, identifier):
        table = self._catalog.load_table(identifier)
        table.catalog = self
        return table

    def commit_table(self, *request):
        self.commits += 1
        if not self.steps:
            return self._catalog.commit_table(*request)
        kind, error = self.steps.pop(0)
        if kind == "committed":
            self._catalog.commit_table(*request)
        elif kind == "late":
            self.late.append(request)
        raise error

    def commit_late_ones(self):
        for request in self.late:
            self._catalog.commit_table(*request)
        self.late.clear()


@pytest.fixture
def catalog(tmp_path):
    return Catalog(tmp_path)


@pytest.fixture
def table(tmp_path, catalog):
    table = a_table(tmp_path, catalog=catalog)
    append(table, 0, 10)
    return table


@pytest.mark.parametrize("error", PASSING, ids=KINDS)
def test_a_commit_whose_answer_is_lost_is_not_repeated(table, catalog, error):
    catalog.steps = [("committed", error)]
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}
    assert len(table.table.snapshots()) == 2


def test_a_commit_that_is_reported_as_failed_is_not_repeated(table, catalog):
    catalog.steps = [("committed", CommitFailedException("a proxy asked twice"))]
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}


@pytest.mark.parametrize("error", PASSING, ids=KINDS)
def test_a_request_that_is_lost_is_repeated_with_the_same_files(table, catalog, tmp_path, error):
    catalog.steps = [("lost", error)]
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}
    assert files_of(table) == files_in(tmp_path)


def test_a_request_that_is_carried_out_late_excludes_its_repetition(table, catalog):
    catalog.steps = [("late", ReadTimeout("30 s"))]
    load = catalog.load_table
    loads = []

    def load_then_late_commit(identifier):
        loaded = load(identifier)
        loads.append(identifier)
        if len(loads) == 2:
            catalog.commit_late_ones()
        return loaded

    catalog.load_table = load_then_late_commit
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}
    assert len(table.table.snapshots()) == 2


def test_a_request_that_is_carried_out_after_its_repetition_is_refused(table, catalog):
    catalog.steps = [("late", ReadTimeout("30 s"))]
    assert append(table, 10, 20) == {0: 20}
    with pytest.raises(CommitFailedException):
        catalog.commit_late_ones()
    assert assert_holds_its_marks(table) == {0: 20}


def test_a_request_that_is_carried_out_after_the_append_gave_up_is_in_the_marks(table, catalog):
    catalog.steps = [("late", ReadTimeout("30 s")), ("lost", ConnectionError("gone"))]
    with pytest.raises(CatalogProblem, match=r"redpanda.flights: unknown outcome.*gone"):
        append(table, 10, 20)
    assert assert_holds_its_marks(table) == {0: 10}
    catalog.commit_late_ones()
    with pytest.raises(MarksMoved):
        append(table, 10, 20)
    assert assert_holds_its_marks(table) == {0: 20}


def test_a_request_that_is_carried_out_after_the_next_append_is_refused(table, catalog):
    catalog.steps = [("late", ReadTimeout("30 s")), ("lost", ConnectionError("gone"))]
    with pytest.raises(CatalogProblem):
        append(table, 10, 20)
    append(table, 10, 30)
    with pytest.raises(CommitFailedException):
        catalog.commit_late_ones()
    assert assert_holds_its_marks(table) == {0: 30}


def test_a_catalog_that_never_answers_is_a_passing_problem(table, catalog):
    catalog.steps = [("lost", ConnectionError("refused"))] * 100
    with pytest.raises(CatalogProblem, match=r"redpanda.flights: .*ConnectionError: refused"):
        append(table, 10, 20)
    assert 100 - len(catalog.steps) < 5
    catalog.steps = []
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}


def test_a_catalog_that_cannot_be_read_is_a_passing_problem(table, catalog):
    def load_table(identifier):
        raise OperationalError("SELECT", {}, Exception("database is locked"))

    catalog.load_table = load_table
    with pytest.raises(
        CatalogProblem, match=r"redpanda.flights: OperationalError: database is locked"
    ):
        table.refresh()
    with pytest.raises(CatalogProblem):
        append(table, 10, 20)


def test_a_request_that_the_catalog_never_accepts_is_permanent(table, catalog, tmp_path):
    catalog.steps = [("lost", BadRequestError("no such field"))] * 2
    with pytest.raises(WrongTable, match=r"redpanda.flights: .*BadRequestError: no such field"):
        append(table, 10, 20)
    assert assert_holds_its_marks(table) == {0: 10}


def test_a_store_that_fails_while_files_are_written_leaves_the_table_as_it_was(
    table, tmp_path, monkeypatch
):
    before = files_in(tmp_path)

    def create(file, overwrite):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PyArrowFile, "create", create)
        with pytest.raises(CatalogProblem, match=r"redpanda.flights: OSError: No space left"):
            append(table, 10, 20)
    assert files_in(tmp_path) == before
    assert assert_holds_its_marks(table) == {0: 10}


def test_another_snapshot_that_comes_first_is_rebased_onto(table, catalog, tmp_path):
    other = a_table(tmp_path)
    commit = catalog._catalog.commit_table

    def commit_after_another(*request):
        catalog._catalog.commit_table = commit
        append(other, 0, 5, partition=1)
        return commit(*request)

    catalog._catalog.commit_table = commit_after_another
    assert append(table, 10, 20) == {0: 20, 1: 5}
    assert assert_holds_its_marks(table) == {0: 20, 1: 5}
    assert len(files_in(tmp_path)) == 3
    manifests = len(list(tmp_path.rglob("snap-*.avro")))
    assert manifests == len(table.table.snapshots())


def test_a_commit_to_another_branch_that_comes_first_is_rebased_onto(table, catalog, tmp_path):
    other = a_table(tmp_path).table
    other.manage_snapshots().create_branch(other.current_snapshot().snapshot_id, "audit").commit()
    commit = catalog._catalog.commit_table

    def commit_after_another(*request):
        catalog._catalog.commit_table = commit
        other.append(rows(0, range(3)), branch="audit")
        return commit(*request)

    catalog._catalog.commit_table = commit_after_another
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}


def test_the_same_range_committed_first_by_another_leaves_no_files(table, catalog, tmp_path):
    other = a_table(tmp_path)
    commit = catalog._catalog.commit_table

    def commit_after_another(*request):
        catalog._catalog.commit_table = commit
        append(other, 10, 15)
        return commit(*request)

    catalog._catalog.commit_table = commit_after_another
    with pytest.raises(MarksMoved, match="partition 0 ends at 15 in the table, not at 10"):
        append(table, 10, 20)
    assert assert_holds_its_marks(table) == {0: 15}
    assert files_in(tmp_path) == files_of(table)
    assert len(list(tmp_path.rglob("snap-*.avro"))) == len(table.table.snapshots())


def test_a_spec_changed_meanwhile_has_the_files_written_again(table, catalog, tmp_path):
    commit = catalog._catalog.commit_table

    def commit_after_another(*request):
        catalog._catalog.commit_table = commit
        a_table(tmp_path, partition_spec="(bucket(2, redpanda.key))")
        raise CommitFailedException("the table has changed")

    catalog._catalog.commit_table = commit_after_another
    assert append(table, 10, 20) == {0: 20}
    assert assert_holds_its_marks(table) == {0: 20}
    files = [task.file.spec_id for task in table.table.scan().plan_files()]
    assert len(files) == 3 and len(set(files)) == 2
    assert files_of(table) == files_in(tmp_path)


def test_an_interrupted_append_deletes_no_file_that_is_committed(table, catalog, tmp_path):
    commit = catalog._catalog.commit_table

    def commit_then_stop(*request):
        catalog._catalog.commit_table = commit
        commit(*request)
        raise KeyboardInterrupt

    catalog._catalog.commit_table = commit_then_stop
    with pytest.raises(KeyboardInterrupt):
        append(table, 10, 20)
    assert assert_holds_its_marks(table) == {0: 20}
    assert table.append(rows(0, range(0)), {0: (20, 20)}, {0: 0}).ends == {0: 20}
