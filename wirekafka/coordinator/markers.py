"""Writes the markers that end a transaction in each of its partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wirekafka.coordinator.groups import OFFSETS_TOPIC, GroupCoordinator
from wirekafka.errors import Error, KafkaError
from wirekafka.log.control import Marker, encode_marker
from wirekafka.replication.machine import Producer
from wirekafka.replication.partition import Partition

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ending:
    """Whose transaction ends, how, and under which `transaction.version` (KIP-1228)."""

    producer: Producer
    marker: Marker
    transaction_version: int


class MarkerWriter:
    """The partitions led here, as a transaction coordinator sees them.

    `find` raises `KafkaError` for a partition that is not here.
    """

    def __init__(self, find: Callable[[str, int], Partition], groups: GroupCoordinator):
        self._find = find
        self._groups = groups

    def write(self, ending: Ending, where: Iterable[TopicPartition]) -> dict[TopicPartition, Error]:
        """Append a marker to each partition; what became of each.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR;
        INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker that is out of date.
        """
        producer, marker = ending.producer, ending.marker
        batch = encode_marker(producer.id, producer.epoch, marker)
        errors = {}
        for topic, index in where:
            try:
                self._write_one(topic, index, batch, ending)
            except KafkaError as error:
                errors[topic, index] = error.error
            else:
                errors[topic, index] = Error.NONE
        return errors

    def _write_one(self, topic: str, index: int, batch: bytes, ending: Ending) -> None:
        self._find(topic, index).append_marker(batch, ending.transaction_version)
        if topic == OFFSETS_TOPIC:
            self._groups.end_transaction(index, ending.producer, ending.marker.is_commit)
