"""Windows: a range of a log in parts that are small enough to compare in memory."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from wirekafka.reader import DataLost, Isolation, OffsetRange, Split
from wirekafka.tables.rows import schema
from wirekafka.translation.columns import calendar_times
from wirekafka.translation.comparison.row_comparison import Placed

SPAN = 1 << 18
"""The offsets that one window covers at the most."""
_ROWS = 1 << 17
_BYTES = 32 << 20
_TIMESTAMP = "timestamp"
_READER_NAMES = {"timestamp_type": "timestampType"}
"""The reader's names of columns that differ from the names of the table's fields."""


class CheckedLog(Protocol):
    """What verification needs of a log: directories, a tier, or a broker. Raises ReaderError."""

    def partitions(self, topic: str) -> list[int]:
        """The partitions that are there."""
        ...

    def offsets(
        self, topic: str, partition: int, *, isolation: Isolation = "read_committed"
    ) -> OffsetRange:
        """Where the log begins, and its safe end."""
        ...

    def read(
        self,
        split: Split,
        *,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_committed",
    ) -> Iterator[pa.RecordBatch]:
        """The records of a part of a partition, in order of their offsets."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Consecutive offsets, and all committed records of the log among them."""

    start_offset: int
    end_offset: int
    log: Placed


class _Collected:
    """The records of the window that is being filled."""

    def __init__(self, columns: Sequence[str], names: Sequence[str]) -> None:
        self._schema, self._names = schema(columns), list(names)
        self._parts: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    @property
    def room(self) -> int:
        """How many more rows have room."""
        return 0 if self._bytes >= _BYTES else _ROWS - self._rows

    def add(self, batch: pa.RecordBatch) -> None:
        times = calendar_times(batch.column(_TIMESTAMP))
        self._parts.append(
            batch.set_column(batch.schema.names.index(_TIMESTAMP), _TIMESTAMP, times)
        )
        self._rows += batch.num_rows
        self._bytes += batch.nbytes

    def take(self) -> Placed:
        parts, self._parts = self._parts, []
        self._rows = self._bytes = 0
        return Placed.of(pa.Table.from_batches(parts, self._schema).rename_columns(self._names))


def windows(
    log: CheckedLog,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    fields: Sequence[str],
) -> Iterator[Window]:
    """A whole range of a partition in windows, gaps included; `fields` as the table names them."""
    columns = ["offset", *(_READER_NAMES.get(each, each) for each in fields)]
    collected = _Collected(columns, ["offset", *fields])
    begin = start_offset
    while begin < end_offset:
        split = Split(topic, partition, begin, end_offset)
        try:
            begin = yield from _of_records(log.read(split, columns=columns), collected, begin)
            break
        except DataLost as lost:
            # A broker deletes old records meanwhile: nothing is known of them any more.
            if lost.end_offset <= begin:
                raise
            collected.take()
            begin = lost.end_offset
    while begin < end_offset:
        end = min(begin + SPAN, end_offset)
        yield Window(begin, end, collected.take())
        begin = end


def _of_records(
    batches: Iterable[pa.RecordBatch], collected: _Collected, begin: int
) -> Generator[Window, None, int]:
    """The windows that records fill; returns where the last window begins, which is not full."""
    for batch in batches:
        rest = batch
        while rest.num_rows:
            offsets = rest.column("offset").to_numpy()
            limit = begin + SPAN
            fits = min(int(np.searchsorted(offsets, limit)), collected.room)
            collected.add(rest.slice(0, fits))
            rest = rest.slice(fits)
            if rest.num_rows:
                # Up to the next record: what lies between has none.
                end = min(int(offsets[fits]), limit)
                yield Window(begin, end, collected.take())
                begin = end
    return begin
