"""Commands that keep a mirror's leader epochs and producer ids apart from its source's."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.codec.message import Message
from wirekafka.metadata.controller.command import (
    MOST_RECORDS_PER_BATCH,
    ControllerCommand,
    ControllerState,
    Decision,
)
from wirekafka.metadata.controller.registration import registered
from wirekafka.protocol.records.metadata import ProducerIdsRecord
from wirekafka.runtime.machine import command


@command
class RaiseLeaderEpochs(ControllerCommand[None]):
    """Give partitions a leader epoch, by topic and index, unless they have a higher one.

    Each record has the whole partition: a change of a leader raises the epoch by one only.
    """

    epochs: Mapping[tuple[str, int], int]

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return a record for each partition that exists; the caller repeats what is left out."""
        records: list[Message] = []
        for (name, index), epoch in self.epochs.items():
            topic = state.image.topics.get(name)
            partition = None if topic is None else topic.partitions.get(index)
            if topic is None or partition is None or partition.leader_epoch >= epoch:
                continue
            record = partition.to_record(topic.id)
            record.leader_epoch = epoch
            record.partition_epoch += 1
            records.append(record)
        return Decision(records[:MOST_RECORDS_PER_BATCH], None)


@command
class RaiseProducerIds(ControllerCommand[None]):
    """Allocate no producer id below `least`: producers of the source have them.

    A producer of this cluster that had the id of such a producer would be taken for it in a
    promoted topic.
    """

    broker_id: int
    broker_epoch: int
    least: int

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return one record, as for an allocated block. Raises as `registered`."""
        registered(state, self.broker_id, self.broker_epoch)
        if state.image.next_producer_id >= self.least:
            return Decision((), None)
        record = ProducerIdsRecord(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=self.least
        )
        return Decision((record,), None)
