"""Writing of the end markers of a transaction to each of its partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wirekafka.coordinator.groups.coordinator import GroupCoordinator
from wirekafka.coordinator.routing import TopicPartition
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.waiting import Watched
from wirekafka.runtime.machine import Producer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """Producer, marker and `transaction.version` (KIP-1228) of an ending transaction."""

    producer: Producer
    marker: Marker
    transaction_version: int


class MarkerWriter:
    """Appends end markers to partitions led by this broker.

    `find` raises `KafkaError` for a partition that is not here.
    """

    def __init__(self, find: Callable[[str, int], Partition], groups: GroupCoordinator):
        self._find = find
        self._groups = groups

    def write(self, ending: Ending, where: Iterable[TopicPartition]) -> dict[TopicPartition, Error]:
        """Append a marker to each partition; returns an error or NONE for each.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
        KAFKA_STORAGE_ERROR;
        INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for an outdated marker.
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

    def when_settled(
        self, where: Iterable[TopicPartition], settled: Callable[[frozenset[TopicPartition]], None]
    ) -> None:
        """Call back once everything now in these logs is committed (synced and replicated).

        `settled` gets the partitions whose outcome is unknown: this broker lost their leadership,
        or a sync failed.
        """
        ends: dict[Partition, int] = {}
        lost = set()
        for topic, index in where:
            try:
                partition = self._find(topic, index)
            except KafkaError:
                lost.add((topic, index))
            else:
                ends[partition] = partition.end_offset
        _Settlement(ends, lost, settled).begin()

    def _placed(self, topic: str, index: int) -> Partition:
        """Look up a partition. Raises KafkaError.

        As in Kafka, coordinators get UNKNOWN_TOPIC_OR_PARTITION for every partition without a
        replica here, even if it exists elsewhere.
        """
        try:
            return self._find(topic, index)
        except KafkaError as error:
            if error.error is Error.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION) from error
            raise

    def _write_one(self, topic: str, index: int, batch: bytes, ending: Ending) -> None:
        leader = self._placed(topic, index).leading()
        if topic == OFFSETS_TOPIC and not self._groups.leads(index):
            # The groups of this partition could not be loaded. Coordinators retry after this error;
            # they do not expect NOT_COORDINATOR in this response.
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        if topic == OFFSETS_TOPIC:
            self._groups.write_collected(index)
        leader.append_marker(batch, ending.transaction_version)
        if topic == OFFSETS_TOPIC:
            self._groups.end_transaction(index, ending.producer, ending.marker.is_commit)


class _Settlement:
    """Waits until each partition has committed its log as of `begin`, or has lost leadership."""

    def __init__(
        self,
        ends: dict[Partition, int],
        lost: set[TopicPartition],
        settled: Callable[[frozenset[TopicPartition]], None],
    ):
        self._ends = ends
        self._lost = lost
        self._settled = settled

    def begin(self) -> None:
        """Start watching; calls back at once if there is nothing to wait for."""
        for partition in [each for each in self._ends if self._is_over(each)]:
            self._pass(partition)
        for partition in self._ends:
            partition.watchers[self] = None
        if not self._ends:
            self._settled(frozenset(self._lost))

    def look(self, changed: Watched) -> None:
        assert isinstance(changed, Partition)
        if not self._is_over(changed):
            return
        del changed.watchers[self]
        self._pass(changed)
        if not self._ends:
            self._settled(frozenset(self._lost))

    def _is_over(self, partition: Partition) -> bool:
        return (
            partition.high_watermark >= self._ends[partition]
            or not partition.is_leader
            or partition.log.has_failed
        )

    def _pass(self, partition: Partition) -> None:
        end_offset = self._ends.pop(partition)
        if partition.high_watermark < end_offset:
            self._lost.add((partition.topic, partition.index))
