"""The data files of a table's newest snapshot, and their rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import FileScanTask, Table

from wirekafka.tables.iceberg.problems import WrongTable
from wirekafka.tables.iceberg.projection import FileColumns


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows of data files, and the schema of which they have the columns' names."""

    rows: pa.Table
    layout: Schema


def live_files(table: Table) -> list[FileScanTask]:
    """The data files, each with the files that delete rows of it.

    Raises WrongTable for a table with equality deletes: pyiceberg does not read them.
    """
    try:
        return list(table.scan().plan_files())
    except (NotImplementedError, ValueError) as error:
        name = ".".join(table.name())
        raise WrongTable(
            f"{name}: {error}; rewrite the table's data files, as Spark's procedure"
            " rewrite_data_files does, so that no deletes remain"
        ) from error


def rows_of(table: Table, files: Sequence[FileScanTask], columns: Sequence[str] = ()) -> LiveRows:
    """The rows of data files in the table's current columns, or in some of them.

    pyiceberg's own scan is not used: it makes a null list or map of structs an empty one, and what
    is written again must be what was read. Raises WrongTable for files that others than Iceberg's
    writers made.
    """
    schema = table.schema().select(*columns) if columns else table.schema()
    field_ids = [table.schema().find_field(each).field_id for each in columns]
    parts = [_rows_of(table, each, schema, field_ids) for each in files]
    return LiveRows(pa.concat_tables(parts), sanitize_column_names(schema))


def _rows_of(
    table: Table, task: FileScanTask, schema: Schema, field_ids: Sequence[int]
) -> pa.Table:
    path = task.file.file_path
    if task.file.file_format != FileFormat.PARQUET:
        raise WrongTable(f"{path} is no Parquet file")
    with table.io.new_input(path).open() as stream:
        parquet = pq.ParquetFile(stream)
        try:
            layout = pyarrow_to_schema(
                parquet.schema_arrow,
                downcast_ns_timestamp_to_us=True,
                format_version=table.format_version,
            )
        except ValueError as error:
            # Columns may be constants of the partition or found by name: pyiceberg's own matter.
            raise WrongTable(f"{path} has columns without field ids: {error}") from error
        found = (layout.find_column_name(each) for each in field_ids)
        names = [each for each in found if each is not None]
        rows = parquet.read(columns=names or None)
    rows = FileColumns(layout.select(*names) if names else layout, schema).of(rows)
    if task.delete_files:
        rows = rows.filter(pa.array(_remaining(table, task, rows.num_rows)))
    return rows


def _remaining(table: Table, task: FileScanTask, count: int) -> NDArray[np.bool_]:
    """Which of a file's rows no file of deletes names."""
    remains = np.ones(count, np.bool_)
    for deletes in task.delete_files:
        if deletes.file_format != FileFormat.PARQUET:
            raise WrongTable(f"{deletes.file_path} is no Parquet file")
        with table.io.new_input(deletes.file_path).open() as stream:
            named = pq.read_table(stream, columns=["file_path", "pos"])
        positions = named.filter(pc.equal(named["file_path"], task.file.file_path))["pos"]
        remains[positions.to_numpy()] = False
    return remains
