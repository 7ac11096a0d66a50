"""Rows as Parquet files that no snapshot has yet: partitioned, sorted by position, compressed."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector
from pyiceberg.io import FileIO, OutputFile, load_file_io
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    bin_pack_arrow_table,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, TimestampType, TimestamptzType
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.properties import property_as_int

from wirekafka.tables.iceberg.arrow_types import plain_type
from wirekafka.tables.iceberg.column_bounds import statistics_of
from wirekafka.tables.iceberg.layout import RECORD_COLUMN, YEAR_1_US, YEAR_9999_US
from wirekafka.tables.iceberg.problems import TooManyParts
from wirekafka.tables.iceberg.projection import FileColumns

_INCREASING = {f"{RECORD_COLUMN}.offset", f"{RECORD_COLUMN}.timestamp"}
"""Columns that grow from row to row, as paths in Parquet."""
MOST_PARTS = 1_000
"""The partitions of a table in one commit: so many files are written in 10 to 20 s."""
_LONGEST_DIRECTORIES = 200
"""Longer directories of a partition are left out: file systems have names of 255 bytes.

They are for people. Readers take a file's partition from its manifest.
"""
_TIMES = (DateType, TimestampType, TimestamptzType)
_BY_DATE = (DayTransform, HourTransform, IdentityTransform)
"""Transforms whose partitions are a date or an hour."""
_DAY_US = 86_400_000_000
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files of one partition spec, not in any snapshot."""

    spec_id: int
    files: Sequence[DataFile]


def write_rows(
    table: Table, rows: pa.Table, layout: Schema, *, most_parts: int | None = None
) -> WrittenFiles:
    """Write rows by the table's current columns and partition spec.

    `layout` is the table's schema of which the rows have the columns' names; columns may have been
    renamed since. Columns that the rows lack are null. Each file is sorted by partition and offset
    of the log. Raises TooManyParts, before a file is written, for rows in more than `most_parts`
    partitions of the table.
    """
    metadata = table.metadata
    spec_id = metadata.default_spec_id
    if rows.num_rows == 0:
        return WrittenFiles(spec_id, ())
    parts = _parts(metadata, by_position(rows), layout, most_parts)
    columns = FileColumns(layout, metadata.schema())
    provider = load_location_provider(metadata.location, metadata.properties)
    write_id = uuid4()

    def write(numbered: tuple[int, tuple[PartitionKey | None, pa.Table]]) -> DataFile:
        number, (key, part) = numbered
        named = key if key is None or len(key.to_path()) <= _LONGEST_DIRECTORIES else None
        path = provider.new_data_location(f"{number:05d}-{write_id}.parquet", named)
        return _write_file(table, path, key, columns.of(part), columns.schema)

    # Parquet is compressed outside of the interpreter's lock.
    written = ExecutorFactory.get_or_create().map(write, enumerate(parts))
    return WrittenFiles(spec_id, tuple(written))


def without_partition(metadata: TableMetadata, rows: pa.Table) -> dict[int, str]:
    """By index of the row, why a row belongs to no partition of a table.

    The rows have columns of the table's present schema. pyiceberg, as any reader in Python, has no
    date beyond the years 1 to 9999, so no partition by such a date or hour.
    """
    spec, schema = metadata.spec(), metadata.schema()
    found: dict[int, str] = {}
    for field in spec.fields:
        source = schema.find_field(field.source_id).field_type
        if not isinstance(source, _TIMES) or not isinstance(field.transform, _BY_DATE):
            continue
        path = schema.find_column_name(field.source_id)
        reason = (
            f"{path} is not of the years 1 to 9999, and the table is partitioned by"
            f" {field.transform} of it"
        )
        column = pc.cast(_column(rows, path), plain_type(schema_to_pyarrow(source)))
        unit_us = 1 if pa.types.is_timestamp(column.type) else _DAY_US
        numbers = pc.cast(column, pa.int32() if unit_us > 1 else pa.int64())
        least, most = YEAR_1_US // unit_us, YEAR_9999_US // unit_us
        wrong = pc.or_(pc.less(numbers, least), pc.greater(numbers, most))
        for index in pc.indices_nonzero(pc.fill_null(wrong, False)).to_pylist():
            found.setdefault(index, reason)
    return found


def has_metadata(properties: Mapping[str, str], location: str) -> bool:
    """Whether a table's metadata are at a location; False where pyiceberg cannot list files."""
    io = load_file_io(dict(properties), location)
    if not isinstance(io, PyArrowFileIO):
        return False
    scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
    selector = FileSelector(f"{path}/metadata", allow_not_found=True)
    return bool(io.fs_by_scheme(scheme, netloc).get_file_info(selector))


def delete_files(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that no snapshot has, as far as possible: what is left is an orphan."""

    def delete(path: str) -> None:
        try:
            io.delete(path)
        except Exception as error:
            _logger.warning("%s is in no snapshot and cannot be deleted: %s", path, error)

    for _ in ExecutorFactory.get_or_create().map(delete, paths):
        pass


def by_position(rows: pa.Table) -> pa.Table:
    """Rows sorted by partition and offset of the log."""
    record = rows[RECORD_COLUMN]
    keys = pa.table(
        {
            "partition": pc.struct_field(record, "partition"),
            "offset": pc.struct_field(record, "offset"),
        }
    )
    if _is_sorted(keys):
        return rows
    order = [("partition", "ascending"), ("offset", "ascending")]
    return rows.take(pc.sort_indices(keys, sort_keys=order))


def _is_sorted(keys: pa.Table) -> bool:
    partitions, offsets = (keys[name].combine_chunks() for name in ("partition", "offset"))
    older, newer = slice(0, -1), slice(1, None)
    partitions, offsets = partitions.to_numpy(), offsets.to_numpy()
    grows = partitions[newer] > partitions[older]
    stays = partitions[newer] == partitions[older]
    return bool((grows | (stays & (offsets[newer] >= offsets[older]))).all())


def _write_file(
    table: Table, path: str, key: PartitionKey | None, rows: pa.Table, schema: Schema
) -> DataFile:
    output = table.io.new_output(path)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=key.partition if key is not None else Record(),
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics_of(table.metadata, _write_parquet(output, rows, schema, table.properties)),
        file_size_in_bytes=len(output),
    )


def _write_parquet(
    output: OutputFile, rows: pa.Table, schema: Schema, properties: Mapping[str, str]
) -> pq.FileMetaData:
    """Write a file as the table's properties say; returns its footer.

    Differences of offsets and times are a fraction of them. Readers with vectors that do not know
    the encoding read fields of structs without vectors.
    """
    paths = set(parquet_path_to_id_mapping(schema))
    codec = properties.get(TableProperties.PARQUET_COMPRESSION, "zstd")
    with (
        output.create(overwrite=True) as stream,
        pq.ParquetWriter(
            stream,
            rows.schema,
            compression="none" if codec == "uncompressed" else codec,
            compression_level=property_as_int(
                dict(properties), TableProperties.PARQUET_COMPRESSION_LEVEL
            ),
            use_dictionary=sorted(paths - _INCREASING),
            column_encoding=dict.fromkeys(paths & _INCREASING, "DELTA_BINARY_PACKED"),
            store_decimal_as_integer=True,
        ) as writer,
    ):
        writer.write(rows, row_group_size=TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT)
    return writer.writer.metadata


def _parts(
    metadata: TableMetadata, rows: pa.Table, layout: Schema, most_parts: int | None
) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
    """The rows of each file."""
    target_bytes = property_as_int(
        metadata.properties,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    assert target_bytes is not None
    for key, part in _partitions(metadata, rows, layout, most_parts):
        for batches in bin_pack_arrow_table(part, target_bytes):
            yield key, pa.Table.from_batches(batches)


def _partitions(
    metadata: TableMetadata, rows: pa.Table, layout: Schema, most_parts: int | None
) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
    """The rows of each partition of the table, in their order."""
    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        yield None, rows
        return
    names = [str(index) for index in range(len(spec.fields))]
    columns = []
    for field in spec.fields:
        source = schema.find_field(field.source_id).field_type
        column = _column(rows, layout.find_column_name(field.source_id))
        type_ = plain_type(schema_to_pyarrow(source))
        transform = field.transform.pyarrow_transform(source)
        columns.append(transform(column if column.type == type_ else column.cast(type_)))
    values = pa.table(columns, names=names)
    keys = values.group_by(names, use_threads=False).aggregate([])
    if most_parts is not None and keys.num_rows > most_parts:
        raise TooManyParts(f"{keys.num_rows} partitions of the table in one commit")
    for key in keys.to_pylist():
        chosen = _equal(values, key)
        yield (
            PartitionKey(
                field_values=[
                    PartitionFieldValue(field=field, value=key[name])
                    for field, name in zip(spec.fields, names, strict=True)
                ],
                partition_spec=spec,
                schema=schema,
            ),
            rows if keys.num_rows == 1 else rows.filter(chosen),
        )


def _equal(values: pa.Table, key: dict[str, object]) -> pa.ChunkedArray:
    """Which rows have the values of a key; a null equals a null."""
    chosen = None
    for name, value in key.items():
        column = values[name]
        equal = (
            pc.is_null(column)
            if value is None
            else pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), False)
        )
        chosen = equal if chosen is None else pc.and_(chosen, equal)
    return chosen


def _column(rows: pa.Table, path: str | None) -> pa.ChunkedArray:
    """A column by its dotted path; a name may have dots. Null where the rows lack the column."""
    if path is None:
        return pa.chunked_array([pa.nulls(rows.num_rows)])
    if path in rows.column_names:
        return rows[path]
    name = next((each for each in rows.column_names if path.startswith(each + ".")), None)
    column = None if name is None else _field(rows[name], path.removeprefix(f"{name}."))
    return pa.chunked_array([pa.nulls(rows.num_rows)]) if column is None else column


def _field(column: pa.ChunkedArray, path: str) -> pa.ChunkedArray | None:
    names = [] if not pa.types.is_struct(column.type) else [field.name for field in column.type]
    if path in names:
        return pc.struct_field(column, path)
    name = next((each for each in names if path.startswith(each + ".")), None)
    if name is None:
        return None
    return _field(pc.struct_field(column, name), path.removeprefix(f"{name}."))
