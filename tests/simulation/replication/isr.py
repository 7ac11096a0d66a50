"""Proposes ISR changes to the controller, one at a time, until it has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.replication.controller import PartitionState
from wirekafka.errors import Error
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.remote_replica import IsrChange

if TYPE_CHECKING:
    from tests.simulation.replication.broker import SimulatedBroker

_RETRY_MS = 50


class IsrKeeper:
    """AlterPartition for one broker's replica while it leads."""

    def __init__(self, broker: SimulatedBroker):
        self._broker = broker

    def check(self) -> None:
        """Propose a change if the followers' positions call for one."""
        partition = self._broker.partition
        if partition is None or partition.leader is None:
            return
        leader = partition.leader
        change = leader.isr_change(partition.clock.now_ms())
        if change is not None:
            leader.propose(change)
            self._send(leader, partition.topic_id, change)

    def _send(self, leader: Leader, topic_id: bytes, change: IsrChange) -> None:
        broker = self._broker
        world, epoch = broker.world, broker.epoch
        controller = world.controller
        world.network.ask(
            broker.process,
            controller.process,
            lambda reply: reply(controller.alter_partition(broker.id, epoch, topic_id, change)),
            lambda answer: self._answered(leader, topic_id, change, answer),
        )

    def _answered(
        self,
        leader: Leader,
        topic_id: bytes,
        change: IsrChange,
        answer: PartitionState | Error | None,
    ) -> None:
        partition = self._broker.partition
        if partition is None or partition.leader is not leader or leader._proposed is not change:
            return  # The metadata has brought the result, or another leader.
        if isinstance(answer, PartitionState):
            if answer.leader == self._broker.id and answer.leader_epoch == partition.leader_epoch:
                partition.lead(answer.leadership())
            return
        self._broker.note(f"proposed the ISR {change.isr}: {answer}")
        match answer:
            case Error.INELIGIBLE_REPLICA:
                leader.withdraw()
            case None | Error.NOT_CONTROLLER:
                # The change may have been made, so nothing else is proposed until that is known.
                self._broker.process.call_later(
                    _RETRY_MS, lambda: self._retry(leader, topic_id, change)
                )
            case _:
                pass  # Newer metadata is on its way, and ends the proposal.

    def _retry(self, leader: Leader, topic_id: bytes, change: IsrChange) -> None:
        partition = self._broker.partition
        if partition is not None and partition.leader is leader and leader._proposed is change:
            self._send(leader, topic_id, change)
