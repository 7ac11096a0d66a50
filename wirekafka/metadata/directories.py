"""Which log directory each replica is in, as its broker tells the controller (KIP-858)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from wirekafka.clock import Clock
from wirekafka.codec.message import Message
from wirekafka.errors import KafkaError
from wirekafka.metadata.command import MOST_RECORDS_PER_BATCH, ControllerState, Decision
from wirekafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.placement import UNASSIGNED_DIRECTORY
from wirekafka.metadata.records import PartitionChangeRecord
from wirekafka.replication.runtime import Runtime

logger = logging.getLogger(__name__)

Replica = tuple[bytes, int]
"""A topic's id, and the index of one of its partitions."""

_SINCE_METADATA_VERSION = 17
"""3.7-IV2: before it the metadata log does not say where replicas are."""


@dataclass(frozen=True)
class AssignDirectories:
    """A broker has replicas in these directories (ids of 16 bytes)."""

    broker_id: int
    directories: Mapping[Replica, bytes]

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """A change for each replica that is known to be elsewhere, or nowhere."""
        records: list[Message] = []
        for (topic_id, index), directory in self.directories.items():
            topic = state.image.topics_by_id.get(topic_id)
            partition = topic.partitions.get(index) if topic is not None else None
            if partition is None or self.broker_id not in partition.replicas:
                continue  # It was deleted or has moved meanwhile.
            if _directory_of(partition, self.broker_id) != directory:
                records.append(PartitionChangeRecord(
                    partition_id=index, topic_id=topic_id,
                    directories=_assigned(partition, self.broker_id, directory)))
        return Decision(records)


class DirectoryReports:
    """Tells the controller where this broker's replicas are, many at a time."""

    def __init__(self, broker_id: int, controller: Runtime, image: MetadataImage, clock: Clock):
        self._broker_id = broker_id
        self._controller = controller
        self._image = image
        self._clock = clock
        self._untold: dict[Replica, bytes] = {}

    def note(self, topic: TopicImage, partition: PartitionImage, directory: bytes) -> None:
        """A replica is in this directory; that is told soon, unless it is known."""
        if self._image.metadata_version < _SINCE_METADATA_VERSION:
            return
        if _directory_of(partition, self._broker_id) == directory:
            self._untold.pop((topic.id, partition.index), None)
            return
        if not self._untold:
            self._clock.call_later(0, self._tell)
        self._untold[topic.id, partition.index] = directory

    def _tell(self) -> None:
        some = dict(list(self._untold.items())[:MOST_RECORDS_PER_BATCH])
        for replica in some:
            del self._untold[replica]
        if self._untold:
            self._clock.call_later(0, self._tell)
        if some:
            try:
                self._controller.post(AssignDirectories(self._broker_id, some))
            except KafkaError as error:
                logger.info("Where %d replicas are is told at the next start: %s",
                            len(some), error)


def _directory_of(partition: PartitionImage, broker_id: int) -> bytes:
    places = dict(zip(partition.replicas, partition.directories, strict=False))
    return places.get(broker_id, UNASSIGNED_DIRECTORY)


def _assigned(partition: PartitionImage, broker_id: int, directory: bytes) -> list[bytes]:
    places = dict(zip(partition.replicas, partition.directories, strict=False))
    places[broker_id] = directory
    return [places.get(replica, UNASSIGNED_DIRECTORY) for replica in partition.replicas]
