"""Bounds of columns in data files, by which readers skip files.

pyiceberg has none of columns within structs, which the columns of a record's offset, time and key
are. Of a file with several row groups it may have bounds that do not cover all values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    match_metrics_mode,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BinaryType, PrimitiveType, StringType, StructType

from wirekafka.tables.iceberg.layout import RECORD_COLUMN

MOST_COLUMNS_WITH_BOUNDS = 100
"""Beyond, manifests would grow with the table's width: only a record's own columns have bounds."""


def statistics_of(metadata: TableMetadata, footer: pq.FileMetaData) -> dict[str, Any]:
    """What a manifest says of a file that was just written, with bounds of columns not in lists.

    Times beyond the years that Python has are no bounds either: pyiceberg could not encode them.
    Parquet has no bounds of a row group with a value longer than 4 KiB, where pyiceberg takes
    the other row groups' bounds: such a column gets no bounds.
    """
    schema = metadata.schema()
    identifiers = parquet_path_to_id_mapping(sanitize_column_names(schema))
    plan = _statistics_plan(schema, metadata)
    for path in _paths_beyond_python(footer):
        counts = MetricsMode(MetricModeTypes.COUNTS)
        plan[identifiers[path]] = replace(plan[identifiers[path]], mode=counts)
    statistics = data_file_statistics_from_parquet_metadata(
        footer, plan, identifiers
    ).to_serialized_dict()
    partial = {identifiers[path] for path in _paths_without_bounds(footer)}
    for name in ("lower_bounds", "upper_bounds"):
        bounds = statistics[name].items()
        statistics[name] = {key: bound for key, bound in bounds if key not in partial}
    return statistics


def bound_of(bounds: Mapping[int, bytes] | None, schema: Schema, path: str) -> Any:
    """The value of a column's lower or upper bound in a data file; None if it has none."""
    field = schema.find_field(path)
    bound = (bounds or {}).get(field.field_id)
    if bound is None or not isinstance(field.field_type, PrimitiveType):
        return None
    return from_bytes(field.field_type, bound)


def _statistics_plan(schema: Schema, metadata: TableMetadata) -> dict[int, StatisticsCollector]:
    plan = compute_statistics_plan(schema, metadata.properties)
    is_narrow = len(plan) <= MOST_COLUMNS_WITH_BOUNDS
    for field_id, type_, path in _leaves_of_structs(schema.as_struct(), ""):
        if not (is_narrow or path.startswith(f"{RECORD_COLUMN}.")):
            continue
        mode = match_metrics_mode(
            metadata.properties.get(
                f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{path}",
                metadata.properties.get(
                    TableProperties.DEFAULT_WRITE_METRICS_MODE,
                    TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT,
                ),
            )
        )
        is_text = isinstance(type_, StringType | BinaryType)
        if mode.type == MetricModeTypes.TRUNCATE and not is_text:
            mode = MetricsMode(MetricModeTypes.FULL)
        plan[field_id] = StatisticsCollector(
            field_id=field_id, iceberg_type=type_, mode=mode, column_name=path
        )
    return plan


def _leaves_of_structs(struct: StructType, prefix: str) -> Iterable[tuple[int, PrimitiveType, str]]:
    """The primitive fields of a struct and of structs within, not of lists and maps."""
    for field in struct.fields:
        path = prefix + field.name
        if isinstance(field.field_type, StructType):
            yield from _leaves_of_structs(field.field_type, f"{path}.")
        elif isinstance(field.field_type, PrimitiveType):
            yield field.field_id, field.field_type, path


def _paths_beyond_python(footer: pq.FileMetaData) -> set[str]:
    """Columns with times ahead of the year 1 or behind the year 9999 in some row group."""
    found = set()
    for group in range(footer.num_row_groups):
        for position in range(footer.num_columns):
            column = footer.row_group(group).column(position)
            statistics = column.statistics if column.is_stats_set else None
            if statistics is None or statistics.logical_type.type not in ("DATE", "TIMESTAMP"):
                continue
            try:
                _ = statistics.min, statistics.max
            except (OverflowError, ValueError):
                found.add(column.path_in_schema)
    return found


def _paths_without_bounds(footer: pq.FileMetaData) -> set[str]:
    """Columns of which some row group has values, but no statistics of them."""
    partial = set()
    for group in range(footer.num_row_groups):
        for position in range(footer.num_columns):
            column = footer.row_group(group).column(position)
            statistics = column.statistics if column.is_stats_set else None
            if statistics is None or not (statistics.has_min_max or statistics.num_values == 0):
                partial.add(column.path_in_schema)
    return partial
