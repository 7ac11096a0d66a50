"""The columns that every table of a topic has: the record's place, time, key and headers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirekafka.tables.iceberg.layout import RECORD_COLUMN, RECORD_TYPE, YEAR_1_US, YEAR_9999_US

READ_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
"""What is read of the log, with the reader's names."""


def record_column(batch: pa.RecordBatch) -> pa.StructArray:
    """The column `redpanda` of the records of a batch that has `READ_COLUMNS`."""
    named = {
        "partition": batch.column("partition"),
        "timestamp": calendar_times(batch.column("timestamp")),
        "offset": batch.column("offset"),
        "headers": batch.column("headers"),
        "key": batch.column("key"),
        "timestamp_type": batch.column("timestampType"),
    }
    arrays = [named[field.name].cast(field.type) for field in RECORD_TYPE]
    return pa.StructArray.from_arrays(arrays, fields=list(RECORD_TYPE))


def calendar_times(times: pa.TimestampArray) -> pa.TimestampArray:
    """Times in microseconds, null beyond the years 1 to 9999.

    A producer may send any number. Neither pyiceberg nor other readers in Python have such times.
    """
    numbers: NDArray[np.int64] = times.cast(pa.int64()).fill_null(0).to_numpy()
    if not len(numbers) or (numbers.min() >= YEAR_1_US and numbers.max() <= YEAR_9999_US):
        return times
    is_beyond = (numbers < YEAR_1_US) | (numbers > YEAR_9999_US)
    is_null = is_beyond | times.is_null().to_numpy(zero_copy_only=False)
    return pa.array(numbers, pa.int64(), mask=is_null).cast(times.type)


def dead_letters(batch: pa.RecordBatch, reasons: Mapping[int, str]) -> pa.Table:
    """The rows of the records at some indexes, with the reason why each could not be decoded."""
    indexes = pa.array(sorted(reasons), pa.int64())
    chosen = batch.take(indexes)
    return pa.table(
        {
            RECORD_COLUMN: record_column(chosen),
            "value": chosen.column("value"),
            "error": pa.array([reasons[index] for index in sorted(reasons)], pa.string()),
        }
    )
