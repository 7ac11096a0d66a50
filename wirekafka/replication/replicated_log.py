"""What a machine runs on: a log that appends batches and says when they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class ReplicatedLog(Protocol):
    """An ISR partition or a quorum's log, as its leader sees it. Offsets are half-open."""

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""

    @property
    def committed_offset(self) -> int:
        """Everything below is committed: a replica that becomes leader has it."""

    def append(self, batch: bytes) -> int:
        """Append one batch, giving it its offsets and leader epoch; returns the new end offset.

        Raises `KafkaError` when nothing was written or it cannot be said what was.
        """

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call once `committed_offset` reaches `offset`: in order of offset, at once if it has."""

    def read_batches(self) -> Iterable[Buffer]:
        """Every batch there is, oldest first, one by one; for a log with a snapshot, its first."""
