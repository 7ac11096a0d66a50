"""The newest record of each key of a partition: what an upserted table has of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirekafka.translation.comparison.row_comparison import Flags, Offsets, among

_ROWS = 1 << 18
"""Records that are collected before they are joined with the keys."""


class NewestRecords:
    """Which keys a partition has, and which of its offsets should be in the table."""

    def __init__(self, keys: pa.Array, offsets: Offsets) -> None:
        self._keys, self._offsets = keys, offsets

    def has_offsets(self, offsets: Offsets) -> Flags:
        """Which offsets have newest records that are no tombstones."""
        return among(offsets, self._offsets)

    def has_keys(self, keys: pa.ChunkedArray) -> Flags:
        """Which keys the log has."""
        flags: Flags = pc.is_in(keys, self._keys, skip_nulls=True).to_numpy()
        return flags


def newest_records(batches: Iterable[pa.RecordBatch], dead_letters: Offsets) -> NewestRecords:
    """The newest records among batches with `offset`, `key` and `value`, without dead letters.

    All keys of the partition are in memory. A record without a key is the newest of its own.
    """
    kept, waiting, count = _NOTHING, [_NOTHING], 0
    keyless = []
    for batch in batches:
        offsets = batch.column("offset").to_numpy()
        # The newest is the greatest number; its lowest bit says whether it is a tombstone.
        is_tombstone = pc.is_null(batch.column("value")).to_numpy(zero_copy_only=False)
        numbers = offsets * 2 + is_tombstone
        has_key = pc.is_valid(batch.column("key")).to_numpy(zero_copy_only=False)
        keyless.append(offsets[~has_key])
        chosen = has_key & ~among(offsets, dead_letters)
        rows = pa.table({"key": batch.column("key"), "number": pa.array(numbers)})
        waiting.append(rows.filter(pa.array(chosen)))
        count += batch.num_rows
        if count >= _ROWS:
            kept, waiting, count = _newest(kept, waiting), [], 0
    kept = _newest(kept, waiting)
    numbers = kept.column("number").to_numpy()
    offsets = np.concatenate([numbers[numbers % 2 == 0] // 2, *keyless])
    return NewestRecords(kept.column("key").combine_chunks(), np.sort(offsets))


_NOTHING = pa.table({"key": pa.nulls(0, pa.binary()), "number": pa.nulls(0, pa.int64())})


def _newest(kept: pa.Table, waiting: list[pa.Table]) -> pa.Table:
    joined = pa.concat_tables([kept, *waiting])
    found = joined.group_by("key", use_threads=False).aggregate([("number", "max")])
    return found.rename_columns(["key", "number"]).select(["key", "number"])
