"""The controller's decisions on ISRs that leaders propose (KIP-497, KIP-903, KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Replica
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState, Decision
from wirekafka.metadata.controller.registration import registered
from wirekafka.metadata.controller.topic_rules import TopicRules
from wirekafka.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.image.partition_change import RECOVERING, Goal, changed
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange
from wirekafka.replication.partition.replica import NO_EPOCH
from wirekafka.runtime.machine import command


@command
class ChangeIsrs(ControllerCommand[dict[Replica, DecidedIsr | KafkaError]]):
    """Change the ISRs of partitions, each on its own, as the broker that leads them proposes.

    The reply has a `DecidedIsr` or a KafkaError for each partition. Completing a reassignment may
    elect another leader: the change takes place, and the result is NEW_LEADER_ELECTED.
    """

    broker_id: int
    broker_epoch: int
    changes: Mapping[Replica, IsrChange]

    def decide(
        self, state: ControllerState, now_ms: int
    ) -> Decision[dict[Replica, DecidedIsr | KafkaError]]:
        """Return a record for each partition that changes.

        Raises as `registered`.
        """
        registered(state, self.broker_id, self.broker_epoch)
        records: list[Message] = []
        reply: dict[Replica, DecidedIsr | KafkaError] = {}
        rules = TopicRules(state)
        for replica, change in self.changes.items():
            try:
                topic, partition = _find(state.image, replica)
                self._check(state, partition, change)
            except KafkaError as error:
                reply[replica] = error
                continue
            # Completing a reassignment may elect another leader.
            goal = Goal(isr=change.isr, recovery_state=change.leader_recovery_state)
            record = changed(topic.id, partition, goal, rules.of(topic))
            after = partition
            if record is not None:
                records.append(record)
                after = partition.after(record)
            reply[replica] = (
                _decided(after)
                if after.leader_epoch == change.leader_epoch
                else KafkaError(Error.NEW_LEADER_ELECTED)
            )
        return Decision(records, reply)

    def _check(self, state: ControllerState, partition: PartitionImage, change: IsrChange) -> None:
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
            if not _may_join(state, member.broker_id, member.broker_epoch):
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


def _may_join(state: ControllerState, broker_id: int, broker_epoch: int) -> bool:
    return state.is_active(broker_id) and broker_epoch in (
        NO_EPOCH,
        state.image.brokers[broker_id].epoch,
    )


def _decided(partition: PartitionImage) -> DecidedIsr:
    return DecidedIsr(
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=tuple(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
