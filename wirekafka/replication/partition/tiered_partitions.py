"""The interface by which a broker reports its partitions to tiered storage."""

from __future__ import annotations

from typing import Protocol

from wirekafka.replication.partition.partition import Partition


class TieredPartitions(Protocol):
    """Copies closed segments of tiered topics to remote storage, and reads them from there."""

    def placed(self, partition: Partition) -> None:
        """Take over a partition that was placed here, or whose role or configuration changed."""

    def forget(self, partition: Partition) -> None:
        """A partition is no longer here."""

    def dropped(self, partition: Partition) -> None:
        """A partition is about to be deleted: its topic is gone, or the replica moves away."""

    def stop(self) -> None:
        """Stop at once."""
