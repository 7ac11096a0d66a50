"""The rows of a topic's table by partition and offset, read from one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat
from pyiceberg.types import PrimitiveType

from wirekafka.tables.iceberg.arrow_types import arrow_schema
from wirekafka.tables.iceberg.evolution import Renames, renames_of
from wirekafka.tables.iceberg.layout import RECORD_COLUMN, RECORD_TYPE

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.types import NestedField

VALUE = "value"
VALUES = "*"
"""Stands for the struct of all columns of the value."""
PARTITION, OFFSET = f"{RECORD_COLUMN}.partition", f"{RECORD_COLUMN}.offset"
TIMESTAMP = f"{RECORD_COLUMN}.timestamp"
POSITION = ("offset",)
LARGEST_OFFSET = (1 << 63) - 1
NO_PARTITION = -1
_FOOTERS_AT_ONCE = 16


class ColumnRange(NamedTuple):
    """The least and the greatest number of a column in a file."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file of the snapshot, and what its footer says of positions; None: unknown."""

    task: FileScanTask
    partitions: ColumnRange | None
    offsets: ColumnRange | None
    has_unplaced: bool
    """Whether rows may be without partition or offset."""

    def may_have(self, partition: int, start: int, end: int) -> bool:
        """Whether rows of a range of offsets may be in the file."""
        return (
            self.partitions is None or self.partitions.least <= partition <= self.partitions.most
        ) and (self.offsets is None or (self.offsets.least < end and self.offsets.most >= start))


class StoredRows:
    """The rows of the current snapshot of a table, as the table is when this is made.

    The files are listed once; each reading opens only the files whose metadata allow for the range.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self.files = _files(table)
        self.names = [field.name for field in table.schema().fields]
        columns = arrow_schema(table.schema())
        self.value_type = pa.struct([each for each in columns if each.name != RECORD_COLUMN])
        """The columns of the value, as a struct."""

    @property
    def count(self) -> int:
        """How many rows the files have; deletes by other engines are not taken off."""
        return sum(each.task.file.record_count for each in self.files)

    @property
    def renames(self) -> Renames:
        """The older paths of columns, and their newer ones."""
        return renames_of(self._table)

    @property
    def is_key_value(self) -> bool:
        """Whether the columns are the record and its value as bytes."""
        if sorted(self.names) != [RECORD_COLUMN, VALUE]:
            return False
        return str(self._table.schema().find_field(VALUE).field_type) == "binary"

    def between(
        self, partition: int, start: int, end: int, fields: Iterable[str] = POSITION
    ) -> pa.Table:
        """The rows of a partition with offsets from `start` up to `end`, in no certain order.

        `fields` are the record's fields, `value`, or `VALUES` for all columns of the value.
        """
        within = parse(f"{PARTITION} = {partition} and {OFFSET} >= {start} and {OFFSET} < {end}")
        chosen = [each for each in self.files if each.may_have(partition, start, end)]
        return self._read(chosen, within, list(fields))

    def offsets_of(self, partition: int) -> ColumnRange | None:
        """Least and greatest offset that files with the partition have; None if no file has it."""
        found = [each for each in self.files if each.may_have(partition, 0, LARGEST_OFFSET)]
        if not found:
            return None
        known = [each.offsets for each in found if each.offsets is not None]
        if len(known) < len(found):
            return ColumnRange(0, LARGEST_OFFSET - 1)
        return ColumnRange(min(each.least for each in known), max(each.most for each in known))

    def strangers(self, partitions: Iterable[int]) -> pa.Table:
        """Partition and offset of the rows of none of the partitions, or of no position at all."""
        known = set(partitions)
        text = f"{PARTITION} is null or {OFFSET} is null or {OFFSET} < 0"
        # pyiceberg has no expression for a partition that is in an empty set.
        text += f" or {PARTITION} not in ({', '.join(map(str, known or {NO_PARTITION}))})"
        chosen = [
            each
            for each in self.files
            if each.has_unplaced
            or each.partitions is None
            or each.offsets is None
            or each.offsets.least < 0
            or not _covered(each.partitions, known)
        ]
        return self._read(chosen, parse(text), ["partition", "offset"])

    def _read(
        self, chosen: list[StoredFile], within: BooleanExpression, fields: list[str]
    ) -> pa.Table:
        names = [f"{RECORD_COLUMN}.{name}" for name in fields if name not in (VALUE, VALUES)]
        names += [VALUE] if VALUE in fields else []
        names += self.value_type.names if VALUES in fields else []
        schema = self._table.schema()
        scan = ArrowScan(self._table.metadata, self._table.io, schema.select(*names), within)
        batches = scan.to_record_batches([each.task for each in chosen])
        types = TYPES | {VALUES: self.value_type}
        parts = [_flat(batch, fields, self.value_type) for batch in batches]
        if not parts:
            return pa.table({name: pa.nulls(0, types[name]) for name in fields})
        return pa.concat_tables(parts)


TYPES: dict[str, pa.DataType] = {field.name: field.type for field in RECORD_TYPE} | {
    VALUE: pa.binary()
}
"""The types of the fields, whatever widths a file has."""


def _flat(batch: pa.RecordBatch, fields: list[str], value_type: pa.StructType) -> pa.Table:
    """The fields of the record beside each other, in one type each."""
    record = batch.column(RECORD_COLUMN) if RECORD_COLUMN in batch.schema.names else None
    columns = {}
    for name in fields:
        if name == VALUES:
            parts = [batch.column(each.name).cast(each.type) for each in value_type]
            columns[name] = pa.StructArray.from_arrays(parts, fields=list(value_type))
            continue
        column = batch.column(VALUE) if name == VALUE else pc.struct_field(record, name)
        columns[name] = column.cast(TYPES[name])
    return pa.table(columns)


def _files(table: Table) -> list[StoredFile]:
    """The data files, with their bounds from the manifests, or from their footers."""
    if table.current_snapshot() is None:
        return []
    fields = [table.schema().find_field(name) for name in (PARTITION, OFFSET)]
    tasks = list(table.scan().plan_files())
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as threads:
        return list(threads.map(lambda task: _file(table.io, task, fields), tasks))


def _file(io: FileIO, task: FileScanTask, fields: list[NestedField]) -> StoredFile:
    partition, offset = (_listed_bounds(task, each) for each in fields)
    if partition is not None and offset is not None:
        has_nulls = any(_has_nulls(task, each.field_id) for each in fields)
        return StoredFile(task, partition, offset, has_nulls)
    if task.file.file_format != FileFormat.PARQUET:
        return StoredFile(task, None, None, has_unplaced=True)
    # Not all writers list the bounds of fields within a column.
    with io.new_input(task.file.file_path).open() as opened:
        footer = pq.read_metadata(opened)
    partitions, offsets = (_statistics(footer, name) for name in (PARTITION, OFFSET))
    has_nulls = any(each is None or each.null_count != 0 for each in (*partitions, *offsets))
    return StoredFile(task, _bounds(partitions), _bounds(offsets), has_nulls)


def _listed_bounds(task: FileScanTask, field: NestedField) -> ColumnRange | None:
    least = (task.file.lower_bounds or {}).get(field.field_id)
    most = (task.file.upper_bounds or {}).get(field.field_id)
    if least is None or most is None:
        return None
    kind = field.field_type
    assert isinstance(kind, PrimitiveType), "partitions and offsets are numbers"
    return ColumnRange(int(from_bytes(kind, least)), int(from_bytes(kind, most)))


def _has_nulls(task: FileScanTask, field_id: int) -> bool:
    return (task.file.null_value_counts or {}).get(field_id, 1) != 0


def _statistics(footer: pq.FileMetaData, path: str) -> list[pq.Statistics | None]:
    """The statistics of a column in each row group; None where a row group has none."""
    if not footer.num_row_groups:
        return []
    first = footer.row_group(0)
    paths = [first.column(number).path_in_schema for number in range(first.num_columns)]
    if path not in paths:
        return [None]
    number = paths.index(path)
    groups = (footer.row_group(group) for group in range(footer.num_row_groups))
    return [group.column(number).statistics for group in groups]


def _bounds(statistics: list[pq.Statistics | None]) -> ColumnRange | None:
    known = [each for each in statistics if each is not None and each.has_min_max]
    if not known or len(known) < len(statistics):
        return None
    return ColumnRange(min(each.min for each in known), max(each.max for each in known))


def _covered(bounds: ColumnRange, known: set[int]) -> bool:
    """Whether all partitions within the bounds are known."""
    if bounds.most - bounds.least >= len(known):
        return False
    return all(each in known for each in range(bounds.least, bounds.most + 1))


def each_range(start: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    """A range of offsets in parts of at most `step`."""
    while start < end:
        yield start, min(start + step, end)
        start += step
