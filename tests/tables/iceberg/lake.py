"""Tables in a directory, rows for them, and what is in them."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.layout import (
    DEFAULT_NAMESPACE,
    DEFAULT_PARTITION_SPEC,
    KEY_VALUE_COLUMNS,
)
from wirekafka.tables.iceberg.topic_table import TopicTable

TABLE = (DEFAULT_NAMESPACE, "flights")
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FIRST_TIME = datetime(2026, 11, 27, tzinfo=UTC)


def a_table(
    directory: Path,
    columns: pa.Schema = KEY_VALUE_COLUMNS,
    partition_spec: str = DEFAULT_PARTITION_SPEC,
    catalog: Catalog | None = None,
) -> TopicTable:
    """The table of the tests' topic."""
    opened = catalog or open_catalog(str(directory))
    return TopicTable.open(opened, TABLE, TOPIC_ID, columns, partition_spec)


def records(partition: int, offsets: Iterable[int]) -> list[dict]:
    """One a minute, without values."""
    return [
        {
            "redpanda": {
                "partition": partition,
                "offset": offset,
                "timestamp": FIRST_TIME + timedelta(minutes=offset),
                "headers": [{"key": "source", "value": b"test"}],
                "key": b"key-%d" % offset,
                "timestamp_type": 0,
            }
        }
        for offset in offsets
    ]


def rows(partition: int, offsets: Iterable[int]) -> pa.Table:
    """Rows of the layout key_value."""
    values = [
        record | {"value": b"%d" % record["redpanda"]["offset"]}
        for record in records(partition, offsets)
    ]
    return pa.Table.from_pylist(values, schema=KEY_VALUE_COLUMNS)


def append(
    table: TopicTable, start: int, end: int, partition: int = 0, epoch: int = 0
) -> dict[int, int]:
    """Append a whole range; returns the ends of the marks."""
    added = {partition: (start, end)}
    marks = table.append(rows(partition, range(start, end)), added, {partition: epoch})
    return dict(marks.ends)


def offsets_of(table: Table) -> dict[int, list[int]]:
    """The sorted offsets of the rows of each partition of the log."""
    found: dict[int, list[int]] = defaultdict(list)
    for record in table.scan(selected_fields=("redpanda",)).to_arrow()["redpanda"].to_pylist():
        found[record["partition"]].append(record["offset"])
    return {partition: sorted(offsets) for partition, offsets in found.items()}


def assert_holds_its_marks(table: TopicTable) -> dict[int, int]:
    """Assert that the rows are those below the marks, once each; returns the ends."""
    ends = dict(table.refresh().ends)
    found = offsets_of(table.table)
    assert {partition: list(range(end)) for partition, end in ends.items() if end} == found
    return ends


def files_in(directory: Path) -> set[Path]:
    """The data files in a directory of tables, whether a snapshot has them or not."""
    return set(directory.rglob("*.parquet"))


def files_of(table: TopicTable) -> set[Path]:
    """The data files of the newest snapshot."""
    return {
        Path(task.file.file_path.removeprefix("file://"))
        for task in table.table.scan().plan_files()
    }
