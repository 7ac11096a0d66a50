"""The interface of object layouts: which objects a segment consists of, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from wirekafka.codec.batch import Buffer
from wirekafka.tiered.remote_segment import RemoteSegment


class IndexKind(Enum):
    """The files that are stored with the log file of a segment."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producerSnapshot"
    LEADER_EPOCH = "leaderEpoch"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """The contents of a segment that is to be copied."""

    log: Callable[[], Iterator[Buffer]]
    """The log file in pieces, from its beginning at each call."""
    size_bytes: int
    indexes: dict[IndexKind, bytes]
    """All but TRANSACTION, which is missing if nothing was aborted."""


class Layout(Protocol):
    """Stores and reads segments. Every method blocks, for use in any thread. Raises StoreError."""

    def copy(self, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        """Store a segment; returns the custom metadata of its record.

        A copy that fails may leave objects, which `delete` removes.
        """

    def read(self, segment: RemoteSegment, start: int, end: int) -> Buffer:
        """The bytes of the log file between two positions; `end` is at most its size."""

    def index(self, segment: RemoteSegment, kind: IndexKind) -> Buffer:
        """One of the other files. Raises ObjectMissing for TRANSACTION if there is none."""

    def keys(self, segment: RemoteSegment) -> Sequence[str]:
        """The keys of the objects that a segment must have."""

    def keys_if_any(self, segment: RemoteSegment) -> Sequence[str]:
        """The keys of all objects that a segment may have."""

    def delete(self, segment: RemoteSegment) -> None:
        """Delete all objects of a segment, whether or not they exist."""
