"""The controller's decisions on ISRs that leaders propose (KIP-497, KIP-903, KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.channel import Replica
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.elections import RECOVERING, topic_config
from wirekafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.reassignments import is_moving, may_end
from wirekafka.metadata.records import PartitionChangeRecord
from wirekafka.metadata.registration import registered
from wirekafka.replication.remote_replica import DecidedIsr, IsrChange
from wirekafka.replication.replica import NO_EPOCH

_SHRINK_KEEPS_EPOCH_SINCE = 12
"""The metadata.version (3.6-IV0) from which a smaller ISR keeps the leader epoch (KAFKA-15021)."""


@dataclass(frozen=True)
class ChangeIsrs:
    """Change the ISRs of partitions, each on its own, as the broker that leads them proposes.

    The reply has a `DecidedIsr` or a KafkaError for each partition. Completing a reassignment may
    elect another leader: the change takes place, and the result is NEW_LEADER_ELECTED.
    """

    broker_id: int
    broker_epoch: int
    changes: Mapping[Replica, IsrChange]

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Return a record for each partition that changes.

        Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        """
        registered(state, self.broker_id, self.broker_epoch)
        records: list[Message] = []
        reply: dict[Replica, DecidedIsr | KafkaError] = {}
        for replica, change in self.changes.items():
            try:
                topic, partition = _find(state.image, replica)
                self._check(partition, change, state.image)
            except KafkaError as error:
                reply[replica] = error
                continue
            record = _record(state, topic, partition, change)
            changed = partition
            if record is not None:
                records.append(record)
                changed = partition.after(record)
            reply[replica] = (
                _decided(changed)
                if changed.leader_epoch == change.leader_epoch
                else KafkaError(Error.NEW_LEADER_ELECTED)
            )
        return Decision(records, reply)

    def _check(self, partition: PartitionImage, change: IsrChange, image: MetadataImage) -> None:
        if (
            change.leader_epoch > partition.leader_epoch
            or change.partition_epoch > partition.partition_epoch
        ):
            # The leader knows newer metadata than this controller, so another one is active.
            raise KafkaError(Error.NOT_CONTROLLER)
        if change.leader_epoch < partition.leader_epoch:
            raise KafkaError(Error.FENCED_LEADER_EPOCH)
        if partition.leader != self.broker_id:
            raise KafkaError(Error.INVALID_REQUEST)
        if change.partition_epoch < partition.partition_epoch:
            raise KafkaError(Error.INVALID_UPDATE_VERSION)
        isr = change.isr
        if (
            partition.leader not in isr
            or len(set(isr)) < len(isr)
            or not set(isr) <= set(partition.replicas)
        ):
            raise KafkaError(Error.INVALID_REQUEST)
        _check_recovery(partition, change)
        for member in change.members:
            if not _may_join(image, member.broker_id, member.broker_epoch):
                raise KafkaError(Error.INELIGIBLE_REPLICA)


def _find(image: MetadataImage, replica: Replica) -> tuple[TopicImage, PartitionImage]:
    topic_id, index = replica
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_ID)
    if index not in topic.partitions:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    return topic, topic.partitions[index]


def _check_recovery(partition: PartitionImage, change: IsrChange) -> None:
    """Refuse to enlarge the ISR of a recovering leader, or to make one recover again (KIP-704)."""
    state = change.leader_recovery_state
    if not 0 <= state <= RECOVERING:
        raise KafkaError(Error.INVALID_REQUEST)
    if state == RECOVERING and (len(change.isr) > 1 or partition.leader_recovery_state != state):
        raise KafkaError(Error.INVALID_REQUEST)


def _may_join(image: MetadataImage, broker_id: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    return (
        broker is not None
        and not broker.fenced
        and not broker.registration.in_controlled_shutdown
        and broker_epoch in (NO_EPOCH, broker.epoch)
    )


def _record(
    state: ControllerState, topic: TopicImage, partition: PartitionImage, change: IsrChange
) -> PartitionChangeRecord | None:
    """The record of a change, which may also complete a reassignment; None if nothing changes.

    A reassignment is complete once its target is in sync. It then starts a new leader epoch, to
    which the removed replicas do not belong. If it removes the leader, the first replica in sync
    becomes the leader.
    """
    record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    isr, replicas = list(change.isr), _completed(partition, change.isr)
    if replicas is not None:
        isr = [member for member in isr if member in replicas]
        _complete(record, partition, replicas)
    if isr != partition.isr:
        record.isr = isr
    leader = partition.leader if partition.leader in isr else _first(replicas or [], isr)
    has_shrunk = not set(partition.isr) <= set(isr)
    if (
        leader != partition.leader
        or (replicas is not None and not set(partition.replicas) <= set(replicas))
        or (has_shrunk and state.image.metadata_version < _SHRINK_KEEPS_EPOCH_SINCE)
    ):
        record.leader = leader
    if state.image.has_elr:
        _keep_eligible(record, partition, isr, _effective_min_isr(state, topic))
    if change.leader_recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = change.leader_recovery_state
    unchanged = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.id)
    return None if record == unchanged else record


def _completed(partition: PartitionImage, isr: tuple[int, ...]) -> list[int] | None:
    """The replicas after the reassignment in progress, if the ISR completes it; else None."""
    if not is_moving(partition):
        return None
    moving = partition.adding_replicas, partition.removing_replicas
    target = [each for each in partition.replicas if each not in partition.removing_replicas]
    return target if may_end(target, moving, isr) else None


def _complete(
    record: PartitionChangeRecord, partition: PartitionImage, replicas: list[int]
) -> None:
    if replicas != partition.replicas:
        record.replicas = replicas
        places = dict(zip(partition.replicas, partition.directories, strict=False))
        if places:
            record.directories = [places[replica] for replica in replicas]
    record.adding_replicas = [] if partition.adding_replicas else None
    record.removing_replicas = [] if partition.removing_replicas else None


def _first(replicas: list[int], isr: list[int]) -> int:
    return next(replica for replica in replicas if replica in isr)


def _effective_min_isr(state: ControllerState, topic: TopicImage) -> int:
    return min(topic_config(state, topic).min_insync_replicas, len(topic.partitions[0].replicas))


def _keep_eligible(
    record: PartitionChangeRecord, partition: PartitionImage, isr: list[int], min_isr: int
) -> None:
    """Set the eligible leader replicas: those that left the ISR while it was below its minimum."""
    eligible: list[int] = []
    if len(isr) < min_isr:
        had = {*partition.eligible_leader_replicas, *partition.isr}
        eligible = sorted(had.difference(isr))
    if eligible != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = eligible
    if partition.last_known_elr:
        record.last_known_elr = []  # Only a partition without a leader has one.


def _decided(partition: PartitionImage) -> DecidedIsr:
    return DecidedIsr(
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=tuple(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
