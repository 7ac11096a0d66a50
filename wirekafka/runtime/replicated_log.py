"""The log that a machine runs on: it appends batches and reports when they are committed."""

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
        """The high watermark: any replica that may become leader has everything below."""

    def append(self, batch: bytes) -> int:
        """Append one batch, assigning offsets and leader epoch; returns the new end offset.

        Raises `KafkaError` if nothing was written, or if the written part is unknown.
        """

    def when_committed(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once `committed_offset` reaches `offset`, in order; at once if it has."""

    def read_batches(self) -> Iterable[Buffer]:
        """Read all batches, oldest first: batches of a snapshot, then batches of the log."""
