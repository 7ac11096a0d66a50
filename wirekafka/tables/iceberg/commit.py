"""One attempt to commit a snapshot with marks: all of it or nothing, and no attempt of pyiceberg's.

pyiceberg repeats a commit that lost to another one on the newest state of the table, without a look
at the marks: rows would be twice in the table. Its transaction therefore gets a catalog that asks
the real one once, and raises what pyiceberg does not know. Catalogs compare the snapshot that main
had when the marks were read with the one it has now, so the attempt succeeds only if no other
snapshot came between.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.table.update.snapshot import ManageSnapshots

from wirekafka.tables.iceberg.data_files import WrittenFiles, delete_files
from wirekafka.tables.iceberg.marks import TAG, Marks, ancestry, summary_of
from wirekafka.tables.iceberg.problems import cause_of


class TableChange(Protocol):
    """What a snapshot does to the files of a table."""

    @property
    def written(self) -> WrittenFiles | None:
        """The new files; another object once they were written anew."""

    def prepare(self, table: Table) -> None:
        """Make the change fit the table's newest state, or raise what says that it never will."""

    def stage(self, transaction: Transaction, summary: dict[str, str]) -> int:
        """Stage the change with the properties of its snapshot; return the snapshot's id."""


Stage = Callable[[Transaction, dict[str, str]], int]
"""Stages the change of a table with the properties of its snapshot; returns the snapshot's id."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A snapshot that the catalog was asked to commit; its parent is the snapshot before it."""

    snapshot: Snapshot

    def is_in(self, table: Table) -> bool:
        """Whether the snapshot is in the table, as far as snapshots have not expired."""
        found = (each.snapshot_id for each in ancestry(table.metadata))
        return self.snapshot.snapshot_id in found

    def is_lost_in(self, table: Table) -> bool:
        """Whether it can never be committed any more: its sequence number is another's."""
        return any(
            each.sequence_number == self.snapshot.sequence_number
            and each.snapshot_id != self.snapshot.snapshot_id
            for each in table.snapshots()
        )

    def delete_metadata(self, table: Table) -> None:
        """Delete the manifests and the list of manifests of a lost attempt."""
        try:
            paths = [
                manifest.manifest_path
                for manifest in self.snapshot.manifests(table.io)
                if manifest.added_snapshot_id == self.snapshot.snapshot_id
            ]
        except OSError:
            paths = []
        delete_files(table.io, [*paths, self.snapshot.manifest_list])


class LostRace(Exception):
    """The catalog refused an attempt: another commit came first."""


class UnknownOutcome(Exception):
    """The catalog did not say whether an attempt is committed: the cause is `__cause__`."""


def commit_once(
    table: Table,
    marks: Marks,
    added: Mapping[int, tuple[int, int]],
    stage: Stage,
    attempts: list[Attempt],
) -> Table:
    """Commit what `stage` does, the marks and the tag; return the table as it is then.

    `marks` are the newest ones after the commit. The attempt is recorded before the catalog is
    asked. Raises LostRace or UnknownOutcome.
    """
    asked_once = Table(
        table.name(),
        table.metadata,
        table.metadata_location,
        table.io,
        cast(Catalog, _AskedOnce(table.catalog, attempts)),
        table.config,
    )
    transaction = _Transaction(asked_once)
    snapshot_id = stage(transaction, summary_of(marks, added))
    ManageSnapshots(transaction).create_tag(snapshot_id, TAG).commit()
    committed = transaction.commit_transaction()
    return Table(
        committed.name(),
        committed.metadata,
        committed.metadata_location,
        committed.io,
        table.catalog,
        committed.config,
    )


class _Transaction(Transaction):
    """A transaction that computes the metadata that it will commit once for each change.

    pyiceberg's own copies all snapshots of the table at each look, 18 times for one commit: with
    1,500 snapshots, a commit took 2 s.
    """

    def __init__(self, table: Table):
        self._seen: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None
        super().__init__(table)

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata of the table with the changes so far."""
        if self._seen is None or self._seen[0] is not self._updates:
            self._seen = self._updates, super().table_metadata
        return self._seen[1]


class _AskedOnce:
    """A catalog whose failures are none that make pyiceberg's transaction try again or delete."""

    def __init__(self, catalog: Catalog, attempts: list[Attempt]):
        self._catalog = catalog
        self._attempts = attempts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        self._attempts += [
            Attempt(each.snapshot) for each in updates if isinstance(each, AddSnapshotUpdate)
        ]
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as error:
            raise LostRace("another commit came first") from error
        except Exception as error:
            raise UnknownOutcome(f"unknown outcome of a commit: {cause_of(error)}") from error
