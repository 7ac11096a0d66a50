"""Files that other processes have written, appended as one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table, Transaction

from wirekafka.tables.iceberg.data_files import WrittenFiles
from wirekafka.tables.iceberg.problems import WrongTable


class AppendedFiles:
    """The change that appends files of several writers; they have all one partition spec."""

    def __init__(self, parts: Sequence[WrittenFiles]):
        [spec_id] = {part.spec_id for part in parts}
        files = [file for part in parts for file in part.files]
        self.written: WrittenFiles | None = WrittenFiles(spec_id, files)

    def prepare(self, table: Table) -> None:
        """Refuse files of another partition spec than the table has now."""
        assert self.written is not None
        if self.written.spec_id != table.metadata.default_spec_id:
            raise WrongTable(
                f"{'.'.join(table.name())}: its partition spec was changed while files were"
                " written: start the backfill again"
            )

    def stage(self, transaction: Transaction, summary: dict[str, str]) -> int:
        """Stage the files with the properties of their snapshot."""
        assert self.written is not None
        with transaction.update_snapshot(snapshot_properties=summary).merge_append() as update:
            for file in self.written.files:
                update.append_data_file(file)
        return update.snapshot_id
