"""What tiered storage has done, by topic: plain integers that only grow."""

from __future__ import annotations


class TierCounters:
    """The counters of one topic on this broker, since its start."""

    __slots__ = (
        "copied_bytes",
        "copies",
        "deletions",
        "failed_copies",
        "failed_deletions",
        "failed_reads",
        "failed_starts",
        "late_look_ups",
        "late_reads",
        "read_bytes",
        "reads",
        "starts",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    def add(self, other: TierCounters) -> None:
        """Add the counters of a topic that is no longer here."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    copied_bytes: int
    copies: int
    deletions: int
    failed_copies: int
    failed_deletions: int
    failed_reads: int
    failed_starts: int
    late_look_ups: int
    """How often a look-up of a timestamp has taken too long."""
    late_reads: int
    """How often a Fetch did not wait for a read any longer."""
    read_bytes: int
    reads: int
    starts: int
    """How often a follower has begun after a remote segment."""
