"""The leadership of a partition, taken from the metadata image."""

from __future__ import annotations

from wirekafka.metadata.image.image import PartitionImage
from wirekafka.replication.partition.replica import Leadership


def leadership_of(partition: PartitionImage) -> Leadership:
    """Return the metadata that a replica needs to lead or to follow the partition."""
    return Leadership(
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple(partition.isr),
        replicas=tuple(partition.replicas),
        leader_recovery_state=partition.leader_recovery_state,
    )
