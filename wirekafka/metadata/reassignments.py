"""Partitions on their way from one set of replicas to another (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata import placement
from wirekafka.metadata.command import ControllerState, Decision, bounded
from wirekafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class Move:
    """A partition and the replicas it shall have; None calls its reassignment off."""

    topic: str
    index: int
    replicas: Sequence[int] | None


@dataclass(frozen=True)
class Reassign:
    """Move partitions, each for itself; the reply has an error or None for each, in order."""

    moves: Sequence[Move]
    may_change_factor: bool = True

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """A change for each partition that is not as asked already."""
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
            # What is being added does not count: the factor is that of where it started.
            present = len(_before(partition))
            if len(move.replicas) != present:
                raise KafkaError(Error.INVALID_REPLICATION_FACTOR,
                                 f"The replication factor is changed from {present} to "
                                 f"{len(move.replicas)}")
        return _move(image, topic, partition, list(move.replicas))


def is_moving(partition: PartitionImage) -> bool:
    """Whether replicas are being added or removed."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _find(image: MetadataImage, move: Move) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(move.topic)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION,
                         f"Unable to find a topic named {move.topic}.")
    partition = topic.partitions.get(move.index)
    if partition is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION,
                         f"Unable to find partition {move.topic}:{move.index}.")
    return topic, partition


def _before(partition: PartitionImage) -> list[int]:
    return [member for member in partition.replicas if member not in partition.adding_replicas]


def _call_off(topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord:
    if not is_moving(partition):
        raise KafkaError(Error.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = _before(partition)
    in_sync = [member for member in partition.isr if member in replicas]
    if not in_sync:
        raise KafkaError(Error.INVALID_REPLICA_ASSIGNMENT,
                         f"Unable to revert partition assignment for {topic.name}:"
                         f"{partition.index} because it would require an unclean leader "
                         "election.")
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    _settle(change, partition, replicas)
    kept = dict(zip(partition.replicas, partition.directories, strict=False))
    change.directories = [kept.get(each, placement.UNASSIGNED_DIRECTORY) for each in replicas]
    return change


def _move(image: MetadataImage, topic: TopicImage, partition: PartitionImage,
          target: list[int]) -> PartitionChangeRecord | None:
    present = _before(partition)
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    if any(member in partition.isr for member in target) and all(
            member in partition.isr for member in target if member not in present):
        if target == partition.replicas and not is_moving(partition):
            return None
        replicas = target
        _settle(change, partition, target)
    else:
        leaving = [member for member in present if member not in target]
        replicas = change.replicas = target + leaving
        change.adding_replicas = [member for member in target if member not in present]
        change.removing_replicas = leaving
    kept = dict(zip(partition.replicas, partition.directories, strict=False))
    change.directories = [
        kept[each] if each in kept else placement.directories(image, [each])[0]
        for each in replicas]
    return change


def _settle(change: PartitionChangeRecord, partition: PartitionImage,
            replicas: list[int]) -> None:
    """Make `replicas` all there is; who leads but is not among them hands over."""
    in_sync = [member for member in partition.isr if member in replicas]
    change.replicas = replicas
    change.isr = in_sync if in_sync != partition.isr else None
    change.adding_replicas = [] if partition.adding_replicas else None
    change.removing_replicas = [] if partition.removing_replicas else None
    if partition.leader not in in_sync:
        change.leader = next(member for member in replicas if member in in_sync)
