"""The newest rows of a table, read from few small files of its newest commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from wirekafka.tables.iceberg.layout import RECORD_COLUMN

MOST_ROWS = 20
_MOST_COLUMNS = 20
_MOST_FILES = 4
_MOST_MANIFESTS = 4
_LARGEST_FILE_BYTES = 32 << 20
"""Compaction makes larger files, whose rows are older than the rows of the newest commits."""
_POSITION = tuple(f"{RECORD_COLUMN}.{name}" for name in ("partition", "offset", "timestamp"))


class _Position(NamedTuple):
    timestamp_us: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A row: the position, time and key of its record, and the columns of its value."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    values: list[Any]


@dataclass(frozen=True, slots=True)
class Preview:
    """Some of the newest rows, newest first."""

    columns: list[str]
    """The columns of the value."""
    left_out: int
    """How many columns are not shown."""
    rows: list[PreviewRow]
    is_complete: bool
    """Whether no newer row may be in a file that is too large to be read."""


def newest_rows(table: Table) -> Preview:
    """The newest rows by their timestamps, as far as they are in small files."""
    names = [field.name for field in table.schema().fields if field.name != RECORD_COLUMN]
    shown = names[:_MOST_COLUMNS]
    files = list(islice(_newest_files(table), _MOST_FILES))
    small = [each for each in files if each.file_size_in_bytes <= _LARGEST_FILE_BYTES]
    rows: list[PreviewRow] = []
    for file, chosen in _newest_positions(table, small).items():
        rows += _rows_at(table, small[file], chosen, shown)
    rows.sort(key=lambda each: (each.timestamp_ms or -1, each.partition, each.offset), reverse=True)
    return Preview(shown, len(names) - len(shown), rows, len(small) == len(files))


def _newest_files(table: Table) -> Iterator[DataFile]:
    """The data files of the newest manifests, the newest commit's first."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return
    manifests = [
        each for each in snapshot.manifests(table.io) if each.content == ManifestContent.DATA
    ]
    manifests.sort(key=attrgetter("sequence_number"), reverse=True)
    for manifest in manifests[:_MOST_MANIFESTS]:
        entries = manifest.fetch_manifest_entry(table.io)
        entries.sort(key=lambda each: each.sequence_number or 0, reverse=True)
        yield from (each.data_file for each in entries)


def _newest_positions(table: Table, files: list[DataFile]) -> dict[int, list[_Position]]:
    """The positions of the newest rows, by the index of their file."""
    found: list[tuple[_Position, int]] = []
    for index, file in enumerate(files):
        for batch in _batches(table, file, _POSITION, "true"):
            record = batch.column(RECORD_COLUMN)
            times = pc.struct_field(record, "timestamp").cast(pa.int64())
            newest = pc.select_k_unstable(times, min(MOST_ROWS, len(times)), [("", "descending")])
            for at in newest.to_pylist():
                place = (pc.struct_field(record, name)[at].as_py() for name in _NAMES)
                time_us = times[at].as_py()
                found.append((_Position(-1 if time_us is None else time_us, *place), index))
    found.sort(key=lambda each: each[0], reverse=True)
    chosen: dict[int, list[_Position]] = {}
    for position, index in found[:MOST_ROWS]:
        chosen.setdefault(index, []).append(position)
    return chosen


_NAMES = ("partition", "offset")


def _rows_at(
    table: Table, file: DataFile, positions: Iterable[_Position], columns: list[str]
) -> list[PreviewRow]:
    by_partition: dict[int, list[int]] = {}
    for each in positions:
        by_partition.setdefault(each.partition, []).append(each.offset)
    within = " or ".join(
        f"({_POSITION[0]} = {partition} and {_POSITION[1]} in ({', '.join(map(str, offsets))}))"
        for partition, offsets in by_partition.items()
    )
    names = (*_POSITION, f"{RECORD_COLUMN}.key", *columns)
    return [
        row
        for batch in _batches(table, file, names, within)
        for row in _preview_rows(batch, columns)
    ]


def _preview_rows(batch: pa.RecordBatch, columns: list[str]) -> Iterator[PreviewRow]:
    record = batch.column(RECORD_COLUMN)
    times = pc.struct_field(record, "timestamp").cast(pa.int64()).to_pylist()
    fields = (pc.struct_field(record, name).to_pylist() for name in (*_NAMES, "key"))
    values = [_values(batch.column(name)) for name in columns]
    for at, (partition, offset, key) in enumerate(zip(*fields, strict=True)):
        time_ms = None if times[at] is None else times[at] // 1000
        yield PreviewRow(partition, offset, time_ms, key, [column[at] for column in values])


def _values(column: pa.Array) -> list[Any]:
    """The values of a column in Python."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # Times beyond Python's.
        return ["(not in Python's range)"] * len(column)


def _batches(
    table: Table, file: DataFile, names: tuple[str, ...], within: str
) -> Iterator[pa.RecordBatch]:
    schema: Schema = table.schema().select(*names)
    scan = ArrowScan(table.metadata, table.io, schema, parse(within))
    return scan.to_record_batches([FileScanTask(file)])
