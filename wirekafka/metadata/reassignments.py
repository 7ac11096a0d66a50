"""Partition reassignments: changes of a partition's set of replicas (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata import placement
from wirekafka.metadata.command import ControllerState, Decision, bounded
from wirekafka.metadata.image import UNASSIGNED_DIRECTORY, MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class Move:
    """A partition and its target replicas; None cancels its reassignment."""

    topic: str
    index: int
    replicas: Sequence[int] | None


@dataclass(frozen=True)
class Reassign:
    """Reassign partitions independently; the reply has an error or None for each, in order."""

    moves: Sequence[Move]
    may_change_factor: bool = True

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return a change for each partition that differs from its target."""
        records: list[Message] = []
        reply: list[KafkaError | None] = []
        for move in self.moves:
            try:
                change = self._change(move, state.image)
            except KafkaError as error:
                reply.append(error)
                continue
            reply.append(None)
            if change is not None:
                records.append(change)
        return Decision(bounded(records), reply)

    def _change(self, move: Move, image: MetadataImage) -> PartitionChangeRecord | None:
        topic, partition = _find(image, move)
        if move.replicas is None:
            return _call_off(topic, partition)
        placement.check_assignment(image, move.replicas, None)
        if not self.may_change_factor:
            # Replicas being added do not count: the factor is that before the reassignment.
            present = len(_before(partition))
            if len(move.replicas) != present:
                raise KafkaError(
                    Error.INVALID_REPLICATION_FACTOR,
                    f"The replication factor is changed from {present} to {len(move.replicas)}",
                )
        return _move(image, topic, partition, list(move.replicas))


def is_moving(partition: PartitionImage) -> bool:
    """Whether a reassignment of the partition is in progress."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _find(image: MetadataImage, move: Move) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(move.topic)
    if topic is None:
        raise KafkaError(
            Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {move.topic}."
        )
    partition = topic.partitions.get(move.index)
    if partition is None:
        raise KafkaError(
            Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {move.topic}:{move.index}."
        )
    return topic, partition


def _before(partition: PartitionImage) -> list[int]:
    return [member for member in partition.replicas if member not in partition.adding_replicas]


def _call_off(topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord:
    if not is_moving(partition):
        raise KafkaError(Error.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = _before(partition)
    in_sync = [member for member in partition.isr if member in replicas]
    if not in_sync:
        raise KafkaError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:"
            f"{partition.index} because it would require an unclean leader "
            "election.",
        )
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    _settle(change, partition, replicas)
    kept = dict(zip(partition.replicas, partition.directories, strict=False))
    change.directories = [kept.get(each, UNASSIGNED_DIRECTORY) for each in replicas]
    return change


def _move(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, target: list[int]
) -> PartitionChangeRecord | None:
    present = _before(partition)
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    adding = sorted(set(target).difference(present))
    removing = sorted(set(present).difference(target))
    if target == partition.replicas and not is_moving(partition):
        return None
    if may_end(target, (adding, removing), partition.isr):
        replicas = target
        _settle(change, partition, target)
    else:
        replicas = change.replicas = target + removing
        change.adding_replicas, change.removing_replicas = adding, removing
    kept = dict(zip(partition.replicas, partition.directories, strict=False))
    change.directories = [
        kept[each] if each in kept else placement.directories(image, [each])[0] for each in replicas
    ]
    return change


def may_end(
    target: Sequence[int], change: tuple[Sequence[int], Sequence[int]], isr: Sequence[int]
) -> bool:
    """Whether a reassignment to `target`, which adds and removes these replicas, is complete.

    All added replicas must be in sync, and at least one of `target`; if the replication factor
    decreases, all of `target`.
    """
    adding, removing = change
    in_sync = set(isr).difference(removing)
    if not in_sync.intersection(target) or not in_sync.issuperset(adding):
        return False
    return len(adding) >= len(removing) or in_sync.issuperset(target)


def _settle(change: PartitionChangeRecord, partition: PartitionImage, replicas: list[int]) -> None:
    """End a reassignment with these replicas, and elect one of them if the leader is removed.

    Removed replicas do not belong to the leader epoch that follows, even under the same leader.
    """
    in_sync = [member for member in partition.isr if member in replicas]
    change.replicas = replicas
    change.isr = in_sync if in_sync != partition.isr else None
    change.adding_replicas = [] if partition.adding_replicas else None
    change.removing_replicas = [] if partition.removing_replicas else None
    if partition.leader not in in_sync:
        change.leader = next(member for member in replicas if member in in_sync)
    elif not set(partition.replicas) <= set(replicas):
        change.leader = partition.leader
