"""The exchange of data files for others in one snapshot.

pyiceberg exchanges files too, but keeps manifests whose files all are removed, one more with each
snapshot, merges no manifests, and has no snapshot of the kind `replace`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import FileScanTask, Table, TableProperties, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.utils.properties import property_as_int

from wirekafka.tables.iceberg.data_files import WrittenFiles
from wirekafka.tables.iceberg.live_files import live_files


class FilesMoved(Exception):
    """Files to be exchanged are no longer as they were read, or the partition spec is another."""


class Rewrite:
    """Files with the same rows as the files that leave the table."""

    def __init__(self, removed: Sequence[FileScanTask], written: WrittenFiles):
        self.removed = removed
        self.written = written

    def prepare(self, table: Table) -> None:
        """Raise FilesMoved if the table changed too much since the files were read."""
        if not are_live(table, self.removed):
            raise FilesMoved
        if self.written.spec_id != table.metadata.default_spec_id:
            raise FilesMoved

    def stage(self, transaction: Transaction, summary: dict[str, str]) -> int:
        """Stage the exchange as a snapshot that readers of changes pass over."""
        update = SameRows.of(transaction, summary)
        return stage_exchange(update, self.removed, self.written)


def are_live(table: Table, tasks: Iterable[FileScanTask]) -> bool:
    """Whether the table has the files, with the same rows of them deleted."""
    return deletes_by_file(tasks).items() <= deletes_by_file(live_files(table)).items()


def deletes_by_file(tasks: Iterable[FileScanTask]) -> dict[str, frozenset[str]]:
    """Locations of data files, each with the locations of files that delete its rows."""
    return {
        each.file.file_path: frozenset(deletes.file_path for deletes in each.delete_files)
        for each in tasks
    }


def stage_exchange(
    update: _OverwriteFiles, removed: Sequence[FileScanTask], written: WrittenFiles
) -> int:
    """Stage what files leave and what files come; return the snapshot's id."""
    for task in removed:
        update.delete_data_file(task.file)
    for data_file in written.files:
        update.append_data_file(data_file)
    update.commit()
    return update.snapshot_id


class OtherRows(_OverwriteFiles):
    """An exchange of files that changes the table's rows."""

    @classmethod
    def of(cls, transaction: Transaction, summary: dict[str, str]) -> Self:
        """An update that is still empty, with the properties of its snapshot."""
        io = transaction._table.io
        return cls(Operation.OVERWRITE, transaction, io, snapshot_properties=summary)

    def _existing_manifests(self) -> list[ManifestFile]:
        return [
            each
            for each in super()._existing_manifests()
            if each.content == ManifestContent.DELETES
            or each.has_added_files()
            or each.has_existing_files()
        ]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        data = [each for each in manifests if each.content == ManifestContent.DATA]
        deletes = [each for each in manifests if each.content == ManifestContent.DELETES]
        properties = self._transaction.table_metadata.properties
        merging = _ManifestMergeManager(
            target_size_bytes=_setting(
                properties,
                TableProperties.MANIFEST_TARGET_SIZE_BYTES,
                TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
            ),
            min_count_to_merge=_setting(
                properties,
                TableProperties.MANIFEST_MIN_MERGE_COUNT,
                TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
            ),
            merge_enabled=True,
            snapshot_producer=self,
        )
        return merging.merge_manifests(data) + deletes


class SameRows(OtherRows):
    """An exchange of files that leaves the rows as they were."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


def _setting(properties: Mapping[str, str], name: str, default: int) -> int:
    setting = property_as_int(dict(properties), name, default)
    assert setting is not None
    return setting
