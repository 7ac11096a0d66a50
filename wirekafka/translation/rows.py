"""The rows of a chunk: of the table, and of its dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from wirekafka.translation.columns import dead_letters, record_column


@dataclass(slots=True)
class TranslatedRows:
    """Rows by partition and offset; `tombstones` says which are of records with a null value."""

    _tables: list[pa.Table]
    _tombstones: list[pa.BooleanArray]
    dead: list[pa.Table] = field(default_factory=list)
    """Tables of records that are no rows, with the columns of the dead letters."""

    @classmethod
    def none_of(cls, columns: pa.Schema) -> TranslatedRows:
        """No rows yet, with the columns of a table."""
        return cls([columns.empty_table()], [pa.array([], pa.bool_())])

    @property
    def table(self) -> pa.Table:
        """The rows."""
        return pa.concat_tables(self._tables)

    @property
    def tombstones(self) -> pa.BooleanArray:
        """For each row, whether its record has a null value."""
        return pa.concat_arrays(self._tombstones)

    def add(
        self, batch: pa.RecordBatch, values: Sequence[pa.Array], failures: Mapping[int, str]
    ) -> None:
        """Add the records of a batch, but for the failures, which are dead letters by index."""
        names = self._tables[0].column_names
        table = pa.table([record_column(batch), *values], names=names)
        tombstones = batch.column("value").is_null()
        if failures:
            is_row = pa.array([index not in failures for index in range(batch.num_rows)])
            table, tombstones = table.filter(is_row), tombstones.filter(is_row)
            self.dead.append(dead_letters(batch, failures))
        self._tables.append(table)
        self._tombstones.append(tombstones)
