"""Compaction of small data files: neighbours become files of a target size, and rows stay.

Each commit of a topic adds a file for each partition of the table: without compaction, a table has
thousands of files a day, and each query opens them all.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from wirekafka.tables.iceberg.column_bounds import bound_of
from wirekafka.tables.iceberg.data_files import write_rows
from wirekafka.tables.iceberg.layout import RECORD_COLUMN
from wirekafka.tables.iceberg.live_files import LiveRows, live_files, rows_of
from wirekafka.tables.iceberg.replacement import FilesMoved, Rewrite, are_live
from wirekafka.tables.iceberg.topic_table import TopicTable

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class FileSizes:
    """When files are small, and how large they become."""

    small_bytes: int = 32 * MIB
    """A data file below is merged with others."""
    target_bytes: int = 128 * MIB
    """The most that the files merged into one have together."""
    memory_bytes: int = 256 * MIB
    """The most that the rows merged into one file take in memory, where they are sorted."""
    fewest_files: int = 5
    """In the partition of the newest records, which gets more files soon; in others, 2."""


@dataclass(slots=True)
class Compaction:
    """Merges small files of one table, group by group."""

    sizes: FileSizes
    _full: set[str] = field(default_factory=set)
    """Small files whose rows fill the memory that one file may take: merged with no other."""

    def due(self, table: Table) -> list[list[FileScanTask]]:
        """Groups of files of one partition each that are to be merged, most files first."""
        tasks = [each for each in live_files(table) if each.file.file_path not in self._full]
        found = groups(tasks, table, self.sizes)
        return sorted(found, key=len, reverse=True)

    def merge(self, topic_table: TopicTable, group: Sequence[FileScanTask]) -> int:
        """Merge files of a group; return how many left the table, 0 if a conflict prevents it.

        The first call may stop before the end of the group, where memory ends.
        """
        table = topic_table.table
        try:
            parts = self._read(table, group)
            if len(parts) < 2:
                return 0
            merged = group[: len(parts)]
            rows = pa.concat_tables([each.rows for each in parts])
            rewrite = Rewrite(merged, write_rows(table, rows, parts[0].layout))
            topic_table.commit(rewrite, {}, {})
        except FilesMoved:
            return 0
        except FileNotFoundError:
            # Another process may have merged the files and removed them.
            topic_table.refresh()
            if are_live(topic_table.table, group):
                raise
            return 0
        return len(merged)

    def _read(self, table: Table, group: Sequence[FileScanTask]) -> list[LiveRows]:
        """The rows of the first files of a group, as many as memory may hold."""
        parts: list[LiveRows] = []
        size_bytes = 0
        for task in group:
            part = rows_of(table, [task])
            size_bytes += part.rows.nbytes
            if parts and size_bytes > self.sizes.memory_bytes:
                if len(parts) == 1:
                    self._full.add(group[0].file.file_path)
                break
            parts.append(part)
        return parts


def groups(
    tasks: Iterable[FileScanTask], table: Table, sizes: FileSizes
) -> list[list[FileScanTask]]:
    """Groups of small neighbours by partition of the table's current spec.

    Files of older specs stay: a query plans by each file's own spec.
    """
    metadata = table.metadata
    schema = metadata.schema()
    partitions: dict[Any, list[FileScanTask]] = defaultdict(list)
    for task in tasks:
        if task.file.spec_id == metadata.default_spec_id:
            partitions[task.file.partition].append(task)
    newest = max(partitions, key=lambda each: _newest(partitions[each], schema), default=None)
    found = []
    for partition, files in partitions.items():
        small = [each for each in files if each.file.file_size_in_bytes < sizes.small_bytes]
        small.sort(key=lambda each: _position(each.file, schema))
        fewest = sizes.fewest_files if partition == newest else 2
        found += [each for each in _packed(small, sizes.target_bytes) if len(each) >= fewest]
    return found


def _packed(tasks: Iterable[FileScanTask], target_bytes: int) -> Iterator[list[FileScanTask]]:
    group: list[FileScanTask] = []
    size_bytes = 0
    for task in tasks:
        if group and size_bytes + task.file.file_size_in_bytes > target_bytes:
            yield group
            group, size_bytes = [], 0
        group.append(task)
        size_bytes += task.file.file_size_in_bytes
    if group:
        yield group


def _position(data_file: DataFile, schema: Schema) -> tuple[int, int]:
    """Partition and offset of the log where a file begins, as far as its bounds say."""
    return (
        _bound(data_file.lower_bounds, schema, "partition"),
        _bound(data_file.lower_bounds, schema, "offset"),
    )


def _newest(tasks: Iterable[FileScanTask], schema: Schema) -> int:
    return max(_bound(each.file.upper_bounds, schema, "timestamp") for each in tasks)


def _bound(bounds: dict[int, bytes] | None, schema: Schema, name: str) -> int:
    bound = bound_of(bounds, schema, f"{RECORD_COLUMN}.{name}")
    return -1 if bound is None else int(bound)
