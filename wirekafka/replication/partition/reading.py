"""Parameters and results of reading a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.log.lookup import TimestampOffset
from wirekafka.log.slice import LogSlice
from wirekafka.replication.partition.replica import NO_EPOCH


@dataclass(slots=True, kw_only=True)
class ReadResult:
    """The result of fetching one partition; offsets are half-open, -1 where unknown."""

    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    records: LogSlice | None = None
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the fetcher's log diverges; `records` is None then."""


@dataclass(slots=True, kw_only=True)
class ReadRange:
    """The range of a read: the first offset, the upper bound, and the maximal size in bytes."""

    offset: int
    max_bytes: int
    at_least_one: bool = True
    committed: bool = False
    """Read no further than the last stable offset."""
    to_log_end: bool = False
    """Read beyond the high watermark, as followers and debuggers do."""
    from_any_replica: bool = False
    """Also read while this replica is a follower, as consumers may since Fetch v11 (KIP-392)."""
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH


class FoundOffset(NamedTuple):
    """An offset with the timestamp, in ms, and the leader epoch of its record; -1 for none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = NO_EPOCH

    @classmethod
    def of(cls, found: TimestampOffset | None) -> FoundOffset | None:
        """Convert the result of a lookup in the log."""
        return None if found is None else cls(found.timestamp, found.offset, found.leader_epoch)
