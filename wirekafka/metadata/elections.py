"""Who leads a partition when brokers come and go (KIP-966 for eligible leader replicas)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from wirekafka.codec.message import Message
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.image import NO_LEADER, TOPIC, PartitionImage, TopicImage
from wirekafka.metadata.records import PartitionChangeRecord

RECOVERING = 1
"""leaderRecoveryState of a leader that was elected without being in sync."""


def without(state: ControllerState, broker: int) -> Iterator[PartitionChangeRecord]:
    """Changes that take a broker out of every ISR and leadership, as it goes away."""
    for topic in state.image.topics.values():
        effective = None
        for partition in topic.partitions.values():
            if broker not in partition.isr and partition.leader != broker:
                continue
            effective = effective or topic_config(state, topic)
            yield _leave(state, topic, partition, (broker, effective.min_insync_replicas))


def topic_config(state: ControllerState, topic: TopicImage) -> TopicConfig:
    """What a topic runs with."""
    return TopicConfig.resolve(state.config, state.image.config(TOPIC, topic.name))


def _leave(state: ControllerState, topic: TopicImage, partition: PartitionImage,
           leaving: tuple[int, int]) -> PartitionChangeRecord:
    broker, min_isr = leaving
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    in_sync = [member for member in partition.isr if member != broker]
    if in_sync or state.image.has_elr:
        change.isr = in_sync
    # Without ELR the last one in sync stays in the ISR: nobody else may lead.
    if state.image.has_elr and len(in_sync) < min_isr:
        change.eligible_leader_replicas = _merge(partition.eligible_leader_replicas, [broker])
    if partition.leader == broker:
        change.leader = next(
            (member for member in partition.replicas
             if member in in_sync and not state.image.brokers[member].fenced), NO_LEADER)
        if change.leader == NO_LEADER and state.image.has_elr:
            change.last_known_elr = [broker]
    return change


def _merge(present: list[int], more: list[int]) -> list[int]:
    return present + [member for member in more if member not in present]


def led_by(state: ControllerState, broker: int) -> Iterator[PartitionChangeRecord]:
    """Changes that elect a broker which comes back, wherever nobody leads.

    A partition it still leads (it did not stop, it crashed) gets a new leader epoch all the
    same: readers must be able to tell what was written before from what is written now.
    """
    for topic in state.image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader == broker:
                yield PartitionChangeRecord(
                    partition_id=partition.index, topic_id=topic.id, leader=broker)
            elif partition.leader == NO_LEADER and broker in partition.replicas:
                change = elect(topic, partition, lambda member: member == broker, unclean=False)
                if change is not None:
                    yield change


def elect(topic: TopicImage, partition: PartitionImage, alive: Callable[[int], bool], *,
          unclean: bool) -> PartitionChangeRecord | None:
    """The change that gives a leaderless partition its leader, None if nobody may lead it."""
    def first(of: list[int]) -> int | None:
        return next((id for id in partition.replicas if id in of and alive(id)), None)

    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    leader = first(partition.isr)
    if leader is None:
        leader = first(partition.eligible_leader_replicas)
        if leader is None:
            # Nobody is known to have everything. The last leader has most, if it is one of us.
            leader = first(partition.last_known_elr)
            if leader is None and unclean:
                leader = first(partition.replicas)
            if leader is None:
                return None
            change.leader_recovery_state = RECOVERING
        change.isr = [leader]
    if partition.eligible_leader_replicas or partition.last_known_elr:
        change.eligible_leader_replicas = []
        change.last_known_elr = []
    change.leader = leader
    return change


class Election(IntEnum):
    """What kind of leader is asked for (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True)
class ElectLeaders:
    """Elect leaders for (topic, partition) pairs, or for all that need one if that is None.

    The reply has (topic, partition, error or None) in order; asked for all, it leaves out those
    that need none.
    """

    election: Election
    partitions: Sequence[tuple[str, int]] | None

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """A change for each partition that gets another leader."""
        asked = self.partitions
        if asked is None:
            asked = [(topic.name, index) for topic in state.image.topics.values()
                     for index in topic.partitions]
        records: list[Message] = []
        reply: list[tuple[str, int, KafkaError | None]] = []
        for topic, index in asked:
            try:
                records.append(_elected(state, topic, index, self.election))
                reply.append((topic, index, None))
            except KafkaError as error:
                if self.partitions is not None or error.error is not Error.ELECTION_NOT_NEEDED:
                    reply.append((topic, index, error))
        return Decision(records, reply)


def _elected(state: ControllerState, name: str, index: int,
             election: Election) -> PartitionChangeRecord:
    topic = state.image.topics.get(name)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = partition.replicas[0]
    is_preferred = election is Election.PREFERRED
    if partition.leader == preferred or (not is_preferred and partition.leader != NO_LEADER):
        raise KafkaError(Error.ELECTION_NOT_NEEDED,
                         "Leader election not needed for topic partition.")

    def alive(member: int) -> bool:
        broker = state.image.brokers.get(member)
        may_lead = not is_preferred or member == preferred
        return may_lead and broker is not None and not broker.fenced

    change = elect(topic, partition, alive, unclean=not is_preferred)
    if change is None:
        if is_preferred:
            raise KafkaError(Error.PREFERRED_LEADER_NOT_AVAILABLE,
                             "The preferred leader was not available.")
        raise KafkaError(Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                         "Eligible topic partition leaders are not available.")
    return change
