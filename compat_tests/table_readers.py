"""The rows of an Iceberg table as pyiceberg, DuckDB and Spark read them, in one form."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession

from spark_examples.session import TABLES

NAMESPACE = "redpanda"
Row: TypeAlias = dict[str, Any]


def by_pyiceberg(directory: Path, table: str) -> list[Row]:
    """The rows of a table by offset, read by pyiceberg from a broker's directory of tables."""
    catalog = SqlCatalog(
        TABLES, uri=f"sqlite:///{directory}/catalog.db", warehouse=directory.as_uri()
    )
    try:
        rows = plain_rows(catalog.load_table((NAMESPACE, table)).scan().to_arrow())
    finally:
        catalog.close()
    for row in rows:
        # pyiceberg 0.12 reads a null list of structs as an empty one; a record without headers has
        # null.
        row[NAMESPACE]["headers"] = row[NAMESPACE]["headers"] or None
    return rows


def by_duckdb(directory: Path, table: str) -> list[Row]:
    """The rows of a table by offset, read by DuckDB from the table's newest metadata."""
    with duckdb_with_iceberg() as connection:
        scan = "SELECT * FROM iceberg_scan(?)"
        found = connection.execute(scan, [newest_metadata(directory, table)])
        return plain_rows(found.to_arrow_table())


@contextmanager
def duckdb_with_iceberg() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the extension of Iceberg, which needs that of Avro."""
    with duckdb.connect() as connection:
        for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
            connection.load_extension(str(_extension_file(extension)))
        yield connection


def by_spark(spark: SparkSession, table: str) -> list[Row]:
    """The rows of a table by offset, read by Spark with Iceberg's runtime."""
    return frame_rows(spark.table(f"{TABLES}.{NAMESPACE}.`{table}`"))


def frame_rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame of Spark by offset."""
    return plain_rows(frame.toArrow())


def newest_metadata(directory: Path, table: str) -> str:
    """The path of the metadata that the catalog names for a table."""
    with sqlite3.connect(directory / "catalog.db") as connection:
        [location] = connection.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", [table]
        ).fetchone()
    # Spark writes file:/path, and pyiceberg file:///path.
    return urlsplit(location).path


def plain_rows(table: pa.Table) -> list[Row]:
    """The rows of a table of any reader by partition and offset, as one form of Python values."""
    rows = [_plain(row) for row in table.to_pylist(maps_as_pydicts="strict")]
    return sorted(rows, key=lambda row: (row[NAMESPACE]["partition"], row[NAMESPACE]["offset"]))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case UUID():
            return str(value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case bytearray():
            return bytes(value)
    return value


def _extension_file(module: ModuleType) -> Path:
    [found] = Path(module.__path__[0]).glob("extensions/*/*.duckdb_extension")
    return found


READERS: dict[str, Callable[[Path, str], list[Row]]] = {
    "pyiceberg": by_pyiceberg,
    "DuckDB": by_duckdb,
}
"""The readers that need no JVM."""
