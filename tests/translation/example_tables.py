"""A log in memory and a table of it, whose rows a test changes before they are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from wirekafka.reader import Isolation, OffsetRange, Split
from wirekafka.tables.rows import schema
from wirekafka.translation.comparison.stored_rows import TYPES, StoredRows

NAMESPACE = "redpanda"
RECORD_TYPE = pa.struct(
    [
        (name, TYPES[name])
        for name in ("partition", "timestamp", "offset", "headers", "key", "timestamp_type")
    ]
)
KEY_VALUE = pa.schema([("redpanda", RECORD_TYPE), ("value", pa.binary())])
TYPED = pa.schema([("redpanda", RECORD_TYPE), ("id", pa.int64()), ("name", pa.string())])

Row = dict[str, Any]


def record(partition: int, offset: int, **fields: Any) -> Row:
    """A committed record, as a row of the reader."""
    made = {
        "partition": partition,
        "offset": offset,
        "timestamp": datetime.fromtimestamp(1_700_000_000 + offset, UTC),
        "timestampType": 0,
        "key": b"key %d" % offset,
        "value": b"value %d" % offset,
        "headers": [{"key": "h", "value": b"%d" % offset}] if offset % 2 else None,
        "topic": "t",
    }
    return made | fields


def row(of: Row, **fields: Any) -> Row:
    """The row of a record in a table with the value as bytes."""
    names = {field.name for field in RECORD_TYPE} & of.keys()
    position = {name: of[name] for name in names} | {"timestamp_type": of["timestampType"]}
    own = {name: fields.pop(name) for name in list(fields) if name in RECORD_TYPE.names}
    return {"redpanda": position | own, "value": of["value"]} | fields


class MemoryLog:
    """The committed records of a topic, in small batches."""

    def __init__(self, records: Sequence[Row], starts: dict[int, int] | None = None) -> None:
        self.records = sorted(records, key=lambda each: (each["partition"], each["offset"]))
        self._starts = starts or {}

    def partitions(self, topic: str) -> list[int]:
        return sorted({each["partition"] for each in self.records})

    def offsets(
        self, topic: str, partition: int, *, isolation: Isolation = "read_committed"
    ) -> OffsetRange:
        ends = [each["offset"] + 1 for each in self.records if each["partition"] == partition]
        return OffsetRange(self._starts.get(partition, 0), max(ends))

    def read(
        self,
        split: Split,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_committed",
    ) -> Iterator[pa.RecordBatch]:
        wanted = schema(columns, headers=headers)
        found = [
            {name: each[name] for name in wanted.names}
            for each in self.records
            if each["partition"] == split.partition
            and split.start_offset <= each["offset"] < split.end_offset
        ]
        for first in range(0, len(found), 7):
            yield pa.RecordBatch.from_pylist(found[first : first + 7], wanted)


def catalog_in(directory: Path) -> Catalog:
    """A new catalog in a directory."""
    uri = f"sqlite:///{directory}/catalog.db"
    catalog = SqlCatalog("wirekafka", uri=uri, warehouse=f"file://{directory}")
    catalog.create_namespace(NAMESPACE)
    return catalog


def stored(catalog: Catalog, rows: Sequence[Row], columns: pa.Schema = KEY_VALUE) -> StoredRows:
    """The rows of a new table with several files, as verification reads them."""
    table = catalog.create_table((NAMESPACE, f"table-{next(_numbers)}"), columns)
    for first in range(0, len(rows), 25):
        table.append(pa.Table.from_pylist(rows[first : first + 25], columns))
    return StoredRows(table)


_numbers = count()
