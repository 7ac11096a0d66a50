"""A replicated log in memory; a test may hold commits back, and make appends fail."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable
from itertools import count

from wirekafka.errors import Error, KafkaError


class MemoryLog:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.committed_offset = 0
        self.commits_at_once = True
        self.failure: KafkaError | None = None
        self.refuses: Callable[[bytes], bool] | None = None
        self.reads = 0
        self._callbacks: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()

    def append(self, batch: bytes) -> int:
        if self.failure is not None:
            raise self.failure
        if self.refuses is not None and self.refuses(batch):
            raise KafkaError(Error.NOT_ENOUGH_REPLICAS)
        (last_offset_delta,) = struct.unpack_from(">i", batch, 23)
        self.batches.append(struct.pack(">q", self.end_offset) + batch[8:])
        self.end_offset += last_offset_delta + 1
        if self.commits_at_once:
            self.commit(self.end_offset)
        return self.end_offset

    def commit(self, offset: int) -> None:
        self.committed_offset = offset
        while self._callbacks and self._callbacks[0][0] <= offset:
            heapq.heappop(self._callbacks)[2]()

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        if self.committed_offset >= offset:
            callback()
        else:
            heapq.heappush(self._callbacks, (offset, next(self._serial), callback))

    def read_batches(self) -> list[bytes]:
        self.reads += 1
        return list(self.batches)
