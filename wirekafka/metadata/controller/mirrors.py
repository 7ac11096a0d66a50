"""The command that raises leader epochs of mirrored partitions above their source's."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.codec.message import Message
from wirekafka.metadata.controller.command import (
    MOST_RECORDS_PER_BATCH,
    ControllerCommand,
    ControllerState,
    Decision,
)
from wirekafka.runtime.machine import command


@command
class RaiseLeaderEpochs(ControllerCommand[None]):
    """Give partitions a leader epoch, by topic and index, unless they have a higher one.

    The record is that of a whole partition: a change of a leader raises the epoch by one only.
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
