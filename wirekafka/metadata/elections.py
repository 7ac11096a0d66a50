"""Leader elections, on request and when brokers start or stop (KIP-966 for ELR)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from wirekafka.codec.message import Message
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.image import TOPIC, PartitionImage, TopicImage
from wirekafka.metadata.records import PartitionChangeRecord
from wirekafka.replication.replica import NO_LEADER

RECOVERING = 1
"""The leaderRecoveryState of a leader that was elected uncleanly (KIP-704)."""


def without(
    state: ControllerState, broker: int, directories: Container[bytes] | None = None
) -> Iterator[PartitionChangeRecord]:
    """Changes that remove a broker from every ISR and leadership.

    With `directories`, ids of log directories, only from those of its replicas in these.
    """
    for topic in state.image.topics.values():
        effective = None
        for partition in topic.partitions.values():
            if broker not in partition.isr and partition.leader != broker:
                continue
            if directories is not None and partition.directory_of(broker) not in directories:
                continue
            effective = effective or topic_config(state, topic)
            yield _leave(state, topic, partition, (broker, effective.min_insync_replicas))


def topic_config(state: ControllerState, topic: TopicImage) -> TopicConfig:
    """The effective configuration of a topic."""
    return state.config.topic_config(state.image.config(TOPIC, topic.name))


def _leave(
    state: ControllerState, topic: TopicImage, partition: PartitionImage, leaving: tuple[int, int]
) -> PartitionChangeRecord:
    broker, min_isr = leaving
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    in_sync = [member for member in partition.isr if member != broker]
    if in_sync or state.image.has_elr:
        change.isr = in_sync
    # Without ELR the last replica stays in the ISR: no other may be elected cleanly.
    if state.image.has_elr and len(in_sync) < min_isr:
        change.eligible_leader_replicas = _merge(partition.eligible_leader_replicas, [broker])
    if partition.leader == broker:
        change.leader = next(
            (
                member
                for member in partition.replicas
                if member in in_sync and state.image.is_online(partition, member)
            ),
            NO_LEADER,
        )
        if change.leader == NO_LEADER and state.image.has_elr:
            change.last_known_elr = [broker]
    return change


def _merge(present: list[int], more: list[int]) -> list[int]:
    return present + [member for member in more if member not in present]


def led_by(state: ControllerState, broker: int) -> Iterator[PartitionChangeRecord]:
    """Return changes that elect a returning broker in each partition without a leader.

    A partition that it still leads, because it crashed without being fenced, gets a new leader
    epoch too: clients must see that records written before the crash may be lost.
    """
    for topic in state.image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader == broker:
                yield PartitionChangeRecord(
                    partition_id=partition.index, topic_id=topic.id, leader=broker
                )
            elif partition.leader == NO_LEADER and broker in partition.replicas:
                directory = partition.directory_of(broker)
                if not state.image.brokers[broker].has_online(directory):
                    continue
                change = elect(topic, partition, lambda member: member == broker, unclean=False)
                if change is not None:
                    yield change


def elect(
    topic: TopicImage, partition: PartitionImage, alive: Callable[[int], bool], *, unclean: bool
) -> PartitionChangeRecord | None:
    """Return the change that elects a leader; None if no replica may lead the partition."""

    def first(of: list[int]) -> int | None:
        return next((id for id in partition.replicas if id in of and alive(id)), None)

    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    leader = first(partition.isr)
    if leader is None:
        leader = first(partition.eligible_leader_replicas)
        if leader is None:
            # No replica is known to have all committed records. The last leader is the best choice.
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
    """The type of a requested election (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True)
class ElectLeaders:
    """Elect leaders for (topic, partition) pairs; None is all partitions that need an election.

    The reply has (topic, partition, error or None) in order, for None without the partitions
    that need no election.
    """

    election: Election
    partitions: Sequence[tuple[str, int]] | None

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return a change for each partition that gets another leader."""
        requested = self.partitions
        if requested is None:
            requested = [
                (topic.name, index)
                for topic in state.image.topics.values()
                for index in topic.partitions
            ]
        records: list[Message] = []
        reply: list[tuple[str, int, KafkaError | None]] = []
        for topic, index in requested:
            try:
                records.append(_elected(state, topic, index, self.election))
                reply.append((topic, index, None))
            except KafkaError as error:
                if self.partitions is not None or error.error is not Error.ELECTION_NOT_NEEDED:
                    reply.append((topic, index, error))
        return Decision(records, reply)


def _elected(
    state: ControllerState, name: str, index: int, election: Election
) -> PartitionChangeRecord:
    topic = state.image.topics.get(name)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = partition.replicas[0]
    is_preferred = election is Election.PREFERRED
    if partition.leader == preferred or (not is_preferred and partition.leader != NO_LEADER):
        raise KafkaError(
            Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )

    def alive(member: int) -> bool:
        may_lead = not is_preferred or member == preferred
        return may_lead and state.image.is_online(partition, member)

    change = elect(topic, partition, alive, unclean=not is_preferred)
    if change is None:
        if is_preferred:
            raise KafkaError(
                Error.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
            )
        raise KafkaError(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    return change
