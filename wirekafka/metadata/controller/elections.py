"""Leader elections, on request and when brokers come and go (KIP-966 for ELR)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import IntEnum

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState, Decision
from wirekafka.metadata.controller.sweep import Pending, Sweep, those
from wirekafka.metadata.controller.topic_rules import TopicRules
from wirekafka.metadata.image.image import PartitionImage, TopicImage
from wirekafka.metadata.image.partition_change import ElectionRule, Goal, changed
from wirekafka.protocol.records.metadata import PartitionChangeRecord
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.runtime.machine import command


def without(state: ControllerState, broker: int) -> Sweep:
    """Remove a broker from every ISR and leadership."""
    pending = those(
        state.image, lambda partition: broker in partition.isr or partition.leader == broker
    )
    return _removal(state, broker, pending)


def without_directories(
    state: ControllerState, broker: int, directories: Container[bytes]
) -> Sweep:
    """As `without`, only for replicas in some log directories; the broker stays active."""
    pending = those(
        state.image,
        lambda partition: (
            (broker in partition.isr or partition.leader == broker)
            and partition.directory_of(broker) in directories
        ),
    )
    return _removal(state, broker, pending, is_gone=False)


def without_lost(state: ControllerState, broker: int) -> Sweep:
    """As `without` after an unclean shutdown: its replicas may lack records (KIP-966)."""
    pending = those(
        state.image,
        lambda partition: broker in partition.isr or broker in partition.eligible_leader_replicas,
    )
    return _removal(state, broker, pending, lost=(broker,))


def leaderless(state: ControllerState, broker: int) -> Sweep:
    """Elect leaders for partitions that have none, now that a broker is back."""
    rules = TopicRules(state, back=broker)

    def elected(topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord | None:
        return changed(topic.id, partition, Goal(), rules.of(topic))

    pending = those(state.image, lambda partition: partition.leader == NO_LEADER)
    return Sweep(broker=broker, pending=pending, change=elected, is_gone=False)


def _removal(
    state: ControllerState,
    broker: int,
    pending: Pending,
    *,
    lost: Container[int] = (),
    is_gone: bool = True,
) -> Sweep:
    rules = TopicRules(state, gone=broker)

    def removed(topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord | None:
        isr = [member for member in partition.isr if member != broker]
        return changed(topic.id, partition, Goal(isr=isr, lost=lost), rules.of(topic))

    return Sweep(broker=broker, pending=pending, change=removed, is_gone=is_gone)


class ElectionType(IntEnum):
    """The type of a requested election (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@command
class ElectLeaders(ControllerCommand[list[tuple[str, int, KafkaError | None]]]):
    """Elect leaders for (topic, partition) pairs.

    The reply has (topic, partition, error or None) in order.
    """

    type: ElectionType
    partitions: Sequence[tuple[str, int]]

    def decide(
        self, state: ControllerState, now_ms: int
    ) -> Decision[list[tuple[str, int, KafkaError | None]]]:
        """Return a change for each partition that gets another leader."""
        records: list[Message] = []
        reply: list[tuple[str, int, KafkaError | None]] = []
        rules = TopicRules(state)
        for topic, index in self.partitions:
            try:
                records.append(_elected(state, rules, (topic, index), self.type))
                reply.append((topic, index, None))
            except KafkaError as error:
                reply.append((topic, index, error))
        return Decision(records, reply)


def _elected(
    state: ControllerState, rules: TopicRules, which: tuple[str, int], type: ElectionType
) -> PartitionChangeRecord:
    name, index = which
    topic = state.image.topics.get(name)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    change = None
    if type is ElectionType.PREFERRED:
        if partition.leader != partition.replicas[0]:
            change = elected(topic, partition, rules, ElectionRule.PREFERRED)
            if change is None:
                raise KafkaError(
                    Error.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
                )
    elif partition.leader == NO_LEADER:
        change = elected(topic, partition, rules, ElectionRule.UNCLEAN)
        if change is None:
            raise KafkaError(
                Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
    if change is None:
        raise KafkaError(
            Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    return change


def elected(
    topic: TopicImage, partition: PartitionImage, rules: TopicRules, kind: ElectionRule
) -> PartitionChangeRecord | None:
    """Return the change by an election of this kind; None if nothing changes."""
    return changed(topic.id, partition, Goal(election=kind), rules.of(topic))
