"""The rows of Arrow record batches, as the models of the tests have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tests.reader.generated_log import Row


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """All rows; the batches need all columns, headers included."""
    return list(each_row(batches))


def each_row(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Row by row, as far as the batches come."""
    for batch in batches:
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        others = batch.drop_columns(["timestamp", "topic", "partition"]).to_pylist()
        for row, microseconds in zip(others, times, strict=True):
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            yield Row(
                row["offset"],
                microseconds // 1000,
                row["timestampType"],
                row["key"],
                row["value"],
                headers,
            )
