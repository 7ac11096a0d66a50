"""The table of one topic: rows of ranges of its log, appended once each."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction

from wirekafka.tables.iceberg.arrow_types import arrow_schema
from wirekafka.tables.iceberg.commit import (
    Attempt,
    LostRace,
    TableChange,
    UnknownOutcome,
    commit_once,
)
from wirekafka.tables.iceberg.data_files import (
    MOST_PARTS,
    WrittenFiles,
    delete_files,
    has_metadata,
    write_rows,
)
from wirekafka.tables.iceberg.evolution import Renames, evolve_table, iceberg_columns, renames_of
from wirekafka.tables.iceberg.layout import RECORD_COLUMN, TABLE_PROPERTIES, TOPIC_ID_PROPERTY
from wirekafka.tables.iceberg.marks import Marks, UnreadableMarks, marks_of
from wirekafka.tables.iceberg.partition_spec import (
    PartitionTerm,
    check_spec,
    has_columns,
    is_settled,
    parse_spec,
    settle_spec,
    with_newer_names,
)
from wirekafka.tables.iceberg.problems import (
    CatalogProblem,
    MarksMoved,
    TableGone,
    WrongTable,
    may_pass,
    passing_problems,
)

_ATTEMPTS = 20
_LONGEST_NAME = 200
"""Of a directory that gets a suffix; file systems have names of 255 bytes."""
_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 2.0
_MOST_UNANSWERED = 2
"""After so many commits with unknown outcome the caller waits: the catalog is not well."""


class TopicTable:
    """Appends to the table of a topic, and changes its columns and its partition spec."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: tuple[str, str],
        topic_id: str,
        terms: tuple[PartitionTerm, ...],
        table: Table,
    ):
        self.catalog = catalog
        self.identifier = identifier
        self.topic_id = topic_id
        self._terms = terms
        self.table = table

    @classmethod
    def open(
        cls,
        catalog: Catalog,
        identifier: tuple[str, str],
        topic_id: str,
        columns: pa.Schema,
        partition_spec: str,
    ) -> "TopicTable":
        """Open the table, which is created with its namespace if there is none.

        A table that exists keeps its columns until `evolve`; its partition spec is changed now, or
        by `evolve` if it names a column that the table does not have yet. Columns of the spec may
        have their older names.
        Raises WrongTable if the table is of another topic id or somebody else's, CatalogProblem
        if the catalog fails, BadSpec for a partition spec that the columns do not allow.
        """
        terms = parse_spec(partition_spec)
        with passing_problems(_name(identifier)):
            try:
                table = catalog.load_table(identifier)
            except NoSuchTableError:
                _create(catalog, identifier, topic_id, columns, terms)
                table = _created(catalog, identifier)
            _check_owner(table, _name(identifier), topic_id)
            opened = cls(catalog, identifier, topic_id, terms, table)
            opened._adopt()
            opened._settle_spec()
        return opened

    def refresh(self) -> Marks:
        """Load the newest state of the table and return its marks.

        Raises WrongTable and CatalogProblem.
        """
        with passing_problems(self.name):
            self.table = self._loaded()
        return self.marks

    @property
    def name(self) -> str:
        """The table's full name, for people."""
        return _name(self.identifier)

    @property
    def marks(self) -> Marks:
        """The marks of the state that was loaded last; without ends if nothing is committed."""
        return marks_of(self.table) or Marks(self.topic_id)

    @property
    def arrow_type(self) -> pa.Schema:
        """The table's columns as Arrow has them."""
        return arrow_schema(self.table.schema())

    @property
    def renames(self) -> Renames:
        """The older paths of fields, and their newer ones, of all evolutions so far."""
        return renames_of(self.table)

    def evolve(self, columns: pa.Schema, renames: Renames | None = None) -> None:
        """Give the table the columns that it lacks, wider types and new names.

        `renames` are paths of older names and of their new names. Columns that are not given stay,
        and become optional. Raises BadEvolution, and nothing is changed; CatalogProblem.
        """
        with passing_problems(self.name):
            for _ in self._races():
                self.table = self._loaded()
                try:
                    evolve_table(self.table, columns, renames or {})
                    self.table = self._loaded()
                    self._settle_spec()
                    return
                except CommitFailedException:
                    continue

    def check_spec(self) -> None:
        """Raise BadSpec if the partition spec names a column that the table lacks now."""
        check_spec(self._present_terms(), self.table.schema())

    def append(
        self, rows: pa.Table, added: Mapping[int, tuple[int, int]], epochs: Mapping[int, int]
    ) -> Marks:
        """Append the rows of ranges of the log as one snapshot, and return the marks after it.

        The rows have the columns of `arrow_type`, or fewer. `added` has start and end offset of
        each partition; a range may have gaps and no rows at all: the snapshot then has marks only.
        Raises MarksMoved if the newest marks do not end where the ranges start, and nothing is
        written; BadSpec if the partition spec names a column that the table lacks; TooManyParts if
        the rows are in too many partitions of the table, and nothing is written; CatalogProblem,
        after which the rows may be in the table if the catalog did not answer: `refresh` returns
        the marks that say it.
        """
        assert added, "nothing to append"
        assert all(start <= end for start, end in added.values())
        _check_rows(rows, added)
        if rows.num_rows:
            # A column that no schema has brought by now is a mistake.
            self.check_spec()
        return self.commit(_Append(rows, self.table.schema()), added, epochs)

    def commit(
        self, change: TableChange, added: Mapping[int, tuple[int, int]], epochs: Mapping[int, int]
    ) -> Marks:
        """Commit a change of the table's files as one snapshot, and return the marks after it.

        Maintenance adds no ranges. Raises as `append` does, and what `change` raises for a state of
        the table that it does not fit.
        """
        attempts: list[Attempt] = []
        replaced: list[tuple[WrittenFiles | None, Sequence[Attempt]]] = []
        unanswered = 0
        with passing_problems(self.name):
            try:
                for _ in self._races():
                    self.table = self._loaded()
                    if any(attempt.is_in(self.table) for attempt in attempts):
                        return self.marks
                    self._check_starts(added)
                    written = change.written
                    change.prepare(self.table)
                    if written is not change.written:
                        replaced.append((written, tuple(attempts)))
                    try:
                        if self._commits(change, added, epochs, attempts):
                            return self.marks
                    except UnknownOutcome as unknown:
                        unanswered += 1
                        if unanswered == _MOST_UNANSWERED:
                            # Some refusals are races too: with a commit to another branch.
                            passes = may_pass(unknown.__cause__)
                            kind = CatalogProblem if passes else WrongTable
                            raise kind(f"{self.name}: {unknown}") from unknown
            except BaseException:
                self._discard(change.written, attempts)
                raise
            finally:
                for written, tried in replaced:
                    self._discard(written, tried)
                self._delete_lost(attempts)
        raise AssertionError("unreachable")

    def _commits(
        self,
        change: TableChange,
        added: Mapping[int, tuple[int, int]],
        epochs: Mapping[int, int],
        attempts: list[Attempt],
    ) -> bool:
        """Whether one attempt to commit a change succeeds; raises UnknownOutcome."""
        try:
            marks = self.marks.after(added, epochs)
            self.table = commit_once(self.table, marks, added, change.stage, attempts)
        except LostRace:
            return False
        return True

    def _check_starts(self, added: Mapping[int, tuple[int, int]]) -> None:
        ends = self.marks.ends
        moved = [
            f"partition {partition} ends at {ends[partition]} in the table, not at {start}"
            for partition, (start, _) in added.items()
            if ends.get(partition, start) != start
        ]
        if moved:
            raise MarksMoved(f"{self.name}: {'; '.join(moved)}")

    def _discard(self, written: WrittenFiles | None, attempts: Sequence[Attempt]) -> None:
        """Delete data files unless an attempt may have committed them, or may do so yet."""
        if written is None or not all(attempt.is_lost_in(self.table) for attempt in attempts):
            return
        delete_files(self.table.io, [file.file_path for file in written.files])

    def _delete_lost(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if attempt.is_lost_in(self.table):
                attempt.delete_metadata(self.table)

    def _races(self) -> Iterator[int]:
        """Tries after which another commit may have come first, with pauses between them."""
        for attempt in range(_ATTEMPTS):
            yield attempt
            longest_s = min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S)
            time.sleep(random.uniform(0, longest_s))  # noqa: S311
        raise CatalogProblem(f"{self.name}: {_ATTEMPTS} times another commit came first")

    def _loaded(self) -> Table:
        try:
            table = self.catalog.load_table(self.identifier)
        except NoSuchTableError as error:
            raise TableGone(f"{self.name}: the table was dropped or renamed") from error
        if table.metadata.table_uuid != self.table.metadata.table_uuid:
            # Marks of the table that was open say nothing of this one.
            raise TableGone(f"{self.name}: another table has taken the place of the one opened")
        _check_owner(table, self.name, self.topic_id)
        return table

    def _adopt(self) -> None:
        """Take over an empty table that somebody else created for the topic."""
        for _ in self._races():
            if self.table.properties.get(TOPIC_ID_PROPERTY) == self.topic_id:
                return
            with suppress(CommitFailedException), self.table.transaction() as transaction:
                transaction.set_properties({TOPIC_ID_PROPERTY: self.topic_id})
            self.table = self._loaded()

    def _settle_spec(self) -> None:
        """Change the partition spec to the wanted one, as soon as the table has its columns."""
        for _ in self._races():
            terms, schema = self._present_terms(), self.table.schema()
            if not has_columns(terms, schema) or is_settled(terms, self.table.metadata):
                return
            with suppress(CommitFailedException), self.table.transaction() as transaction:
                settle_spec(transaction, terms)
            self.table = self._loaded()

    def _present_terms(self) -> tuple[PartitionTerm, ...]:
        return with_newer_names(self._terms, self.table.schema(), self.renames)


class _Append:
    """New files of rows, written again if the partition spec changes before they are committed."""

    def __init__(self, rows: pa.Table, layout: Schema):
        self._rows = rows
        self._layout = layout
        self.written: WrittenFiles | None = None

    def prepare(self, table: Table) -> None:
        if self.written is None or self.written.spec_id != table.metadata.default_spec_id:
            self.written = write_rows(table, self._rows, self._layout, most_parts=MOST_PARTS)

    def stage(self, transaction: Transaction, summary: dict[str, str]) -> int:
        assert self.written is not None
        with transaction.update_snapshot(snapshot_properties=summary).merge_append() as update:
            for file in self.written.files:
                update.append_data_file(file)
        return update.snapshot_id


def _created(catalog: Catalog, identifier: tuple[str, str]) -> Table:
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError as error:  # The catalog refused to create it: locked, perhaps.
        raise CatalogProblem(f"{_name(identifier)}: the table could not be created") from error


def _name(identifier: tuple[str, str]) -> str:
    return ".".join(identifier)


def _create(
    catalog: Catalog,
    identifier: tuple[str, str],
    topic_id: str,
    columns: pa.Schema,
    terms: tuple[PartitionTerm, ...],
) -> None:
    """Create table and namespace; another process may do the same meanwhile."""
    schema = iceberg_columns(columns)
    if has_columns(terms, schema):
        check_spec(terms, schema)
    _create_namespace(catalog, identifier[0])
    properties = TABLE_PROPERTIES | {TOPIC_ID_PROPERTY: topic_id}
    create = partial(
        catalog.create_table_transaction, identifier, schema=schema, properties=properties
    )
    created = create()
    location = created.table_metadata.location
    if has_metadata(catalog.properties, location):
        # Of a table that was renamed or dropped: it must not lose them as the new one's orphans.
        parent, _, name = location.rstrip("/").rpartition("/")
        created = create(location=f"{parent}/{name[:_LONGEST_NAME]}-{uuid4().hex[:8]}")
    with suppress(TableAlreadyExistsError, CommitFailedException), created as transaction:
        if has_columns(terms, schema):
            settle_spec(transaction, terms)


def _create_namespace(catalog: Catalog, namespace: str) -> None:
    if catalog.namespace_exists(namespace):
        return
    try:
        catalog.create_namespace(namespace)
    except Exception:
        # Each catalog has an error of its own for a namespace that another process just created.
        if not catalog.namespace_exists(namespace):
            raise


def _check_owner(table: Table, name: str, topic_id: str) -> None:
    """Raise WrongTable unless the rows in the table, if any, are of the topic."""
    if table.format_version != 2:
        raise WrongTable(f"{name}: the table has format version {table.format_version}, not 2")
    try:
        marks = marks_of(table)
    except UnreadableMarks as error:
        raise WrongTable(f"{name}: {error}") from error
    owner = table.properties.get(TOPIC_ID_PROPERTY) if marks is None else marks.topic_id
    if owner is None and table.current_snapshot() is not None:
        raise WrongTable(
            f"{name}: the table has rows that wirekafka did not write: rename or drop it,"
            " or set another wirekafka.tables.namespace"
        )
    if owner is not None and owner != topic_id:
        raise WrongTable(
            f"{name}: the table is of the topic with id {owner}, the topic now has id {topic_id}:"
            " it was created again; rename or drop the table to start anew"
        )


def _check_rows(rows: pa.Table, added: Mapping[int, tuple[int, int]]) -> None:
    """Assert that the rows are in the ranges, which the marks will claim."""
    if rows.num_rows == 0:
        return
    record = rows[RECORD_COLUMN]
    partitions = pc.struct_field(record, "partition").to_numpy()
    offsets = pc.struct_field(record, "offset").to_numpy()
    inside = 0
    for partition, (start, end) in added.items():
        of_range = (partitions == partition) & (offsets >= start) & (offsets < end)
        inside += int(of_range.sum())
    assert inside == rows.num_rows, "rows outside of the ranges to append"
