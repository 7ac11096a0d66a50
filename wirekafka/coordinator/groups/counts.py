"""The counters of a group coordinator since the start of its broker, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounts:
    """Counted when the coordinator decides, as in Kafka: before the append, which may fail."""

    classic_rebalances: int = 0
    """Generations of classic groups whose leader has assigned the partitions."""
    consumer_rebalances: int = 0
    """Epochs of consumer groups that began for another reason than the end of a member."""
    share_rebalances: int = 0
    streams_rebalances: int = 0
    commits: int = 0
    """Committed offsets, offsets in transactions included."""
    deletions: int = 0
    """Offsets that a client has deleted, without offsets deleted with their group."""
    expirations: int = 0
    """Offsets deleted because of their age."""
