"""Partition reassignments: changes of a partition's set of replicas (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller import placement
from wirekafka.metadata.controller.command import (
    ControllerCommand,
    ControllerState,
    Decision,
    bounded,
)
from wirekafka.metadata.controller.topic_rules import TopicRules
from wirekafka.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.image.partition_change import ElectionRule, Goal, Rules, changed
from wirekafka.protocol.records.metadata import PartitionChangeRecord
from wirekafka.runtime.machine import command


@dataclass(frozen=True, slots=True)
class Move:
    """A partition and its target replicas; None cancels its reassignment."""

    topic: str
    index: int
    replicas: Sequence[int] | None


@command
class Reassign(ControllerCommand[list[KafkaError | None]]):
    """Reassign partitions independently; the reply has an error or None for each, in order."""

    moves: Sequence[Move]
    may_change_factor: bool = True

    def decide(self, state: ControllerState, now_ms: int) -> Decision[list[KafkaError | None]]:
        """Return a change for each partition that differs from its target."""
        records: list[Message] = []
        reply: list[KafkaError | None] = []
        rules = TopicRules(state)
        for move in self.moves:
            try:
                change = self._change(move, state.image, rules)
            except KafkaError as error:
                reply.append(error)
                continue
            reply.append(None)
            if change is not None:
                records.append(change)
        return Decision(bounded(records), reply)

    def _change(
        self, move: Move, image: MetadataImage, rules: TopicRules
    ) -> PartitionChangeRecord | None:
        topic, partition = _find(image, move)
        if move.replicas is None:
            return _call_off(topic, partition, rules.of(topic))
        placement.check_assignment(image, move.replicas, None)
        if not self.may_change_factor:
            # The factor of the reassignment in progress, if there is one.
            present = len(set(partition.replicas).difference(partition.removing_replicas))
            if len(move.replicas) != present:
                raise KafkaError(
                    Error.INVALID_REPLICATION_FACTOR,
                    f"The replication factor is changed from {present} to {len(move.replicas)}",
                )
        return _move(topic, partition, list(move.replicas), rules.of(topic))


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


def _call_off(
    topic: TopicImage, partition: PartitionImage, rules: Rules
) -> PartitionChangeRecord | None:
    if not is_moving(partition):
        raise KafkaError(Error.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = _before(partition)
    isr = [member for member in partition.isr if member not in partition.adding_replicas]
    if not isr and rules.election is not ElectionRule.UNCLEAN:
        raise KafkaError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:"
            f"{partition.index} because it would require an unclean leader "
            "election.",
        )
    goal = Goal(isr=isr or replicas[:1], replicas=replicas, adding=(), removing=())
    return changed(topic.id, partition, goal, rules)


def _move(
    topic: TopicImage, partition: PartitionImage, target: list[int], rules: Rules
) -> PartitionChangeRecord | None:
    """As in Kafka, replicas being added count as present, so that they are removed again.

    If nothing is added or removed, the additions and removals of a reassignment in progress stay.
    """
    present = partition.replicas
    adding = sorted(set(target).difference(present))
    removing = sorted(set(present).difference(target))
    goal = Goal(
        replicas=[*target, *removing],
        adding=adding or None,
        removing=removing or None,
        election=ElectionRule.ONLINE,
    )
    return changed(topic.id, partition, goal, rules)
