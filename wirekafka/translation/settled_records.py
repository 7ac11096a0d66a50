"""The records that have waited long enough for a registry that is late to know their schemas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


class SettledRecords:
    """For each partition up to where records were there for `wait_s` seconds.

    An instance of a registry may learn of an id a moment later than the instance that gave it to
    the producer: only for settled records is an unknown id final. All records that are there at one
    time are settled together, so that a million ids do not wait one after another.
    """

    def __init__(self, wait_s: float):
        self._wait_s = wait_s
        self._seen: dict[int, tuple[float, int]] = {}
        self._ends: dict[int, int] = {}

    def observe(self, partition: int, end_offset: int, now_s: float) -> None:
        """Note up to where a partition has records now."""
        since_s, seen_end = self._seen.setdefault(partition, (now_s, end_offset))
        if now_s - since_s >= self._wait_s:
            self._ends[partition] = seen_end
            self._seen[partition] = now_s, end_offset

    def rows(self, partition: int, batch: pa.RecordBatch) -> int:
        """How many of the first records of a batch are settled."""
        return int(np.searchsorted(batch.column("offset").to_numpy(), self._ends.get(partition, 0)))
