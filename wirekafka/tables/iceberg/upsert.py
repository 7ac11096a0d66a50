"""Rows by key for compacted topics: a record replaces the row of its key, a null value deletes it.

As in a compacted log, a key means a record's key within its partition. Of each key, the record with
the newest offset counts. Data files that have rows of the batch's keys are written again without
those rows, in the same snapshot that adds the batch (copy-on-write); other files are not touched.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import FileScanTask, Table, Transaction

from wirekafka.tables.iceberg.column_bounds import bound_of
from wirekafka.tables.iceberg.data_files import MOST_PARTS, WrittenFiles, delete_files, write_rows
from wirekafka.tables.iceberg.layout import RECORD_COLUMN
from wirekafka.tables.iceberg.live_files import LiveRows, live_files, rows_of
from wirekafka.tables.iceberg.marks import Marks
from wirekafka.tables.iceberg.projection import FileColumns
from wirekafka.tables.iceberg.replacement import OtherRows, deletes_by_file, stage_exchange
from wirekafka.tables.iceberg.topic_table import TopicTable

_PARTITION, _KEY = f"{RECORD_COLUMN}.partition", f"{RECORD_COLUMN}.key"
POSITION_AND_KEY = (_PARTITION, f"{RECORD_COLUMN}.offset", _KEY)
SMALL_FILE_BYTES = 8 << 20
"""What remains of smaller files is written together with the batch."""
MEMORY_BYTES = 256 << 20
"""The most that rows which are written together take in memory, but for one file's."""

_Affected: TypeAlias = tuple[FileScanTask, NDArray[np.bool_]]
"""A data file with rows of a batch's keys, and which of its rows remain."""


def upsert(
    topic_table: TopicTable,
    rows: pa.Table,
    tombstones: pa.BooleanArray,
    added: Mapping[int, tuple[int, int]],
    epochs: Mapping[int, int],
) -> Marks:
    """Replace and delete rows by the records of ranges of the log, as one snapshot.

    `tombstones` says which of the rows are records with a null value. No key is null. Raises as
    `TopicTable.append` does.
    """
    assert added, "nothing to write"
    batch = UpsertBatch.of(rows, tombstones)
    return topic_table.commit(_Upsert(batch, topic_table.table.schema()), added, epochs)


@dataclass(frozen=True, slots=True)
class UpsertBatch:
    """The newest record of each key of some ranges of the log."""

    rows: pa.Table
    tombstones: NDArray[np.bool_]
    keys: pa.Array
    """Partition and key of each row, as one value."""
    offsets: NDArray[np.int64]
    by_partition: Mapping[int, Sequence[bytes]]
    """Keys in order."""

    @classmethod
    def of(cls, rows: pa.Table, tombstones: pa.BooleanArray) -> "UpsertBatch":
        """The newest record of each key among all rows."""
        keys, offsets = _keys(rows), _offsets(rows)
        assert keys.null_count == 0, "a record without a key is a dead letter"
        codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        order = np.lexsort((offsets, codes))
        is_newest = np.ones(len(order), np.bool_)
        is_newest[:-1] = codes[order[:-1]] != codes[order[1:]]
        chosen = np.sort(order[is_newest])
        rows, keys = rows.take(chosen), keys.take(chosen)
        flags = tombstones.to_numpy(zero_copy_only=False)[chosen]
        return cls(rows, flags, keys, offsets[chosen], _keys_by_partition(rows))

    def may_be_in(self, data_file: DataFile, schema: Schema) -> bool:
        """Whether a file's bounds leave room for a row of one of the keys."""
        lower, upper = data_file.lower_bounds, data_file.upper_bounds
        first, last = (bound_of(each, schema, _PARTITION) for each in (lower, upper))
        lowest, highest = (bound_of(each, schema, _KEY) for each in (lower, upper))
        for partition, keys in self.by_partition.items():
            if (first is not None and partition < first) or (last is not None and partition > last):
                continue
            start = 0 if lowest is None else bisect_left(keys, lowest)
            if start < len(keys) and (highest is None or keys[start] <= highest):
                return True
        return False


class _Upsert:
    """The files with rows of a batch's keys, and what is written instead of them."""

    def __init__(self, batch: UpsertBatch, layout: Schema):
        self.written: WrittenFiles | None = None
        self._batch = batch
        self._layout = layout
        self._removed: list[FileScanTask] = []
        self._considered: dict[str, frozenset[str]] = {}

    def prepare(self, table: Table) -> None:
        """Look for the keys, and write; not again if only files without such keys are new."""
        schema = table.schema()
        tasks = [each for each in live_files(table) if self._batch.may_be_in(each.file, schema)]
        considered = deletes_by_file(tasks)
        if (
            self.written is not None
            and considered == self._considered
            and self.written.spec_id == table.metadata.default_spec_id
        ):
            return
        self._considered = considered
        affected, new_rows = self._search(table, tasks)
        self._removed = [task for task, _ in affected]
        self.written = _write(table, affected, LiveRows(new_rows, self._layout))

    def stage(self, transaction: Transaction, summary: dict[str, str]) -> int:
        """Stage the exchange; a batch of new keys is an append, as readers of changes like it."""
        assert self.written is not None
        if self._removed:
            update = OtherRows.of(transaction, summary)
            return stage_exchange(update, self._removed, self.written)
        append = transaction.update_snapshot(snapshot_properties=summary).merge_append()
        for data_file in self.written.files:
            append.append_data_file(data_file)
        append.commit()
        return append.snapshot_id

    def _search(
        self, table: Table, tasks: Iterable[FileScanTask]
    ) -> tuple[list[_Affected], pa.Table]:
        """Files with rows that are replaced or deleted, and the rows of the batch that are new."""
        batch = self._batch
        is_current = ~batch.tombstones
        affected: list[_Affected] = []
        for task in tasks:
            found = rows_of(table, [task], POSITION_AND_KEY).rows
            matches = pc.index_in(_keys(found), value_set=batch.keys)
            is_match = matches.is_valid().to_numpy(zero_copy_only=False)
            if not is_match.any():
                continue
            indexes = matches.fill_null(0).to_numpy()
            is_older = is_match & (_offsets(found) < batch.offsets[indexes])
            is_current[indexes[is_match & ~is_older]] = False
            if is_older.any():
                affected.append((task, ~is_older))
        return affected, batch.rows.filter(pa.array(is_current))


def _write(table: Table, affected: Iterable[_Affected], new: LiveRows) -> WrittenFiles:
    """Write what remains of each large file as a file, and all the rest together."""
    layout = sanitize_column_names(table.schema())
    files: list[DataFile] = []
    together = [FileColumns(new.layout, table.schema()).of(new.rows)]
    try:
        for task, remains in affected:
            if not remains.any():
                continue
            rows = rows_of(table, [task]).rows.filter(pa.array(remains))
            is_small = task.file.file_size_in_bytes < SMALL_FILE_BYTES
            if is_small and sum(each.nbytes for each in together) < MEMORY_BYTES:
                together.append(rows)
            else:
                files += write_rows(table, rows, layout).files
        rows = pa.concat_tables(together)
        last = write_rows(table, rows, layout, most_parts=MOST_PARTS)
    except BaseException:
        delete_files(table.io, [each.file_path for each in files])
        raise
    return WrittenFiles(last.spec_id, [*files, *last.files])


def _keys(rows: pa.Table) -> pa.Array:
    """Partition and key of each row as one value; null where the key is null."""
    record = rows[RECORD_COLUMN].combine_chunks()
    partitions = pc.struct_field(record, "partition").cast(pa.string()).cast(pa.binary())
    keys = pc.struct_field(record, "key").cast(pa.binary())
    return pc.binary_join_element_wise(partitions, keys, b":")


def _offsets(rows: pa.Table) -> NDArray[np.int64]:
    record = rows[RECORD_COLUMN].combine_chunks()
    offsets: NDArray[np.int64] = pc.struct_field(record, "offset").to_numpy(zero_copy_only=False)
    return offsets


def _keys_by_partition(rows: pa.Table) -> dict[int, list[bytes]]:
    record = rows[RECORD_COLUMN].combine_chunks()
    partitions, keys = (pc.struct_field(record, name) for name in ("partition", "key"))
    return {
        partition: sorted(keys.filter(pc.equal(partitions, partition)).to_pylist())
        for partition in partitions.unique().to_pylist()
    }
