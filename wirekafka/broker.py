"""One node's parts wired together: everything a request needs, and no sockets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import NamedTuple

from wirekafka.clock import Clock
from wirekafka.config.broker_config import BrokerConfig, TopicConfig
from wirekafka.coordinator.group_config import GroupConfig
from wirekafka.coordinator.groups import OFFSETS_TOPIC, GroupCoordinator
from wirekafka.coordinator.markers import MarkerWriter
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.transaction_shard import TransactionConfig
from wirekafka.coordinator.transactions import (
    TRANSACTIONS_TOPIC,
    TransactionCoordinator,
    TransactionParts,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.files import Disk
from wirekafka.log.log_directory import Identity, LogDirectory, NewLog, UnusableDirectory
from wirekafka.metadata.auto_creation import AutoCreation
from wirekafka.metadata.bootstrap import bootstrap_records
from wirekafka.metadata.controller import Controller
from wirekafka.metadata.directories import DirectoryReports
from wirekafka.metadata.framing import MetadataCodec
from wirekafka.metadata.image import BROKER, TOPIC, MetadataImage, PartitionImage, TopicImage
from wirekafka.metadata.membership import Identity as Member
from wirekafka.metadata.membership import Membership
from wirekafka.metadata.producer_ids import ProducerIds
from wirekafka.metadata.publish import Publisher
from wirekafka.metadata.registration import Endpoint
from wirekafka.metadata.servable import check_servable
from wirekafka.metadata.snapshots import Snapshots
from wirekafka.replication.fetch_sessions import FetchSessions
from wirekafka.replication.partition import Leadership, Partition, PartitionIdentity
from wirekafka.replication.quorum import QuorumLog, Voter
from wirekafka.replication.readers import Readers
from wirekafka.replication.runtime import Runtime
from wirekafka.replication.waiting import Waiting

logger = logging.getLogger(__name__)


class Node(NamedTuple):
    """Where a broker is reached by those who came in through the same listener."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True, kw_only=True)
class Foundation:
    """What a broker stands on. `new_id` makes a random id of 16 bytes."""

    config: BrokerConfig
    clock: Clock
    disk: Disk
    new_id: Callable[[], bytes]
    recover: Callable[..., set[str]] | None = None
    """As `recovery_job.Recover`, told in how many `processes`; None: all is done in this one."""
    cluster_id: str | None = None
    """Of directories that are new; None is a random one."""


class Broker:
    """The parts, and what a broker does about metadata that concerns it (`publish.Host`).

    Construction locks the log directories and recovers what is in them; `join` begins service,
    `stop` ends it. Raises UnusableDirectory, CorruptLog, OSError.
    """

    def __init__(self, foundation: Foundation):
        self.config = foundation.config
        self.clock = foundation.clock
        self.disk = foundation.disk
        self.node_id = self.config.node_id
        self.image = MetadataImage()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.waiting = Waiting(self.clock)
        self.new_id = foundation.new_id
        self._recover = foundation.recover
        self.sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots,
                                      Random(self.new_id()))
        self.readers = Readers()
        self.sync_later: Callable[[Partition], None] | None = None
        """What new partitions are to have."""
        self._directory_of: dict[tuple[str, int], LogDirectory] = {}
        self.directories = _locked(self.disk, self.config)
        try:
            self.cluster_id = _claim(self.directories, self.node_id, foundation)
            self._open()
        except BaseException:
            for directory in self.directories:
                directory.release()
            raise

    def _open(self) -> None:
        now_ms = self.clock.now_ms()
        metadata_log = self.directories[0].open_metadata_log(_metadata_config(self.config), now_ms)
        identity = self.directories[0].identity
        assert identity is not None, "claimed"
        self.quorum = QuorumLog(
            metadata_log, self.disk, self.clock, Voter(self.node_id, identity.directory_id))
        self.controller = Runtime(
            lambda: Controller(lambda: self.config, self.new_id), self.quorum, MetadataCodec(),
            self.clock, lost=Error.NOT_CONTROLLER)
        self._publisher = Publisher(self.node_id, self.image, self)
        self._reports = DirectoryReports(self.node_id, self.controller, self.image, self.clock)
        self.controller.on_commit = self._publisher.apply
        self.controller.load()
        self.metadata_snapshots = Snapshots(self.quorum, self.image, now_ms)
        self.quorum.check_alone()
        check_servable(self.image, self.node_id)
        self.config = self.config.with_dynamic(
            self.image.config(BROKER, ""), self.image.config(BROKER, str(self.node_id)))
        recover = self._recover
        if recover is not None:
            recover = partial(recover, processes=self.config.num_recovery_threads_per_data_dir)
        for directory in self.directories:
            directory.load(self.topic_config, now_ms, recover)
            self._directory_of.update(dict.fromkeys(directory.logs, directory))
        self.groups = GroupCoordinator(
            GroupConfig.of(self.config), self.clock, lambda: self._partition_count(OFFSETS_TOPIC))
        self.markers = MarkerWriter(self.partition, self.groups)
        self.auto_creation = AutoCreation(self.controller, lambda: self.config)
        self.producer_ids = ProducerIds(self.controller, self.node_id)
        self.transactions = TransactionCoordinator(
            TransactionParts(
                TransactionConfig.of(self.config), self.producer_ids, self.markers,
                lambda index: self.partitions[TRANSACTIONS_TOPIC, index].leader_epoch),
            self.clock, lambda: self._partition_count(TRANSACTIONS_TOPIC))
        self._coordinators: dict[str, Shards] = {
            OFFSETS_TOPIC: self.groups, TRANSACTIONS_TOPIC: self.transactions}
        self._membership = Membership(self.controller, self.quorum, Member(
            node_id=self.node_id, incarnation_id=self.new_id(), rack=self.config.broker_rack,
            directory_ids=[directory.identity.directory_id for directory in self.directories
                           if directory.identity is not None],
            bootstrap=bootstrap_records(self.disk, self.directories[0].path, now_ms)))

    async def join(self, controller: Sequence[Endpoint], broker: Sequence[Endpoint]) -> None:
        """Register under these addresses, and lead what there is to lead."""
        await self._membership.join(controller, broker)
        self.producer_ids.broker_epoch = self._membership.broker_epoch
        self._publisher.start()
        for key, directory in list(self._directory_of.items()):
            if key not in self.partitions:
                del self._directory_of[key]
                directory.set_aside_stray(key)

    def release_waiting(self) -> None:
        """Have all who wait answered: with the data there is, or to find another coordinator."""
        self.waiting.close()
        self.groups.stop()

    async def stop(self) -> None:
        """Hand over leadership, and leave the log directories as a clean stop does.

        What cannot be written any more is told of, and left to the next start's recovery.
        """
        self.release_waiting()
        try:
            await self._membership.leave()
        except KafkaError as error:
            logger.error("The metadata log does not tell of this stop: %s", error)
        self.transactions.stop()
        self.groups.stop()
        self.metadata_snapshots.write_at_stop()
        self.controller.stop()
        high_watermarks = self.high_watermarks()
        for directory in self.directories:
            try:
                directory.close_cleanly(high_watermarks, self._membership.broker_epoch)
            except OSError as error:
                logger.error("%s is not closed in order; the next start recovers it: %s",
                             directory.path, error)

    # What requests ask for.

    @property
    def metadata_offset(self) -> int:
        """The last metadata offset this broker has taken in."""
        return self.controller.applied_offset - 1

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION; KAFKA_STORAGE_ERROR if its log is broken.
        """
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        if any((topic, index) in directory.offline for directory in self.directories):
            raise KafkaError(Error.KAFKA_STORAGE_ERROR)
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """A partition by topic id.

        Raises KafkaError: UNKNOWN_TOPIC_ID, and as `partition`; INCONSISTENT_TOPIC_ID while a
        topic of the same name and another id is taking its place.
        """
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_ID)
        partition = self.partition(topic.name, index)
        if partition.topic_id != topic_id:
            raise KafkaError(Error.INCONSISTENT_TOPIC_ID)
        return partition

    def nodes(self, listener: str) -> list[Node]:
        """The live brokers as clients of a listener reach them."""
        nodes = []
        for broker in self.image.live_brokers():
            endpoint = broker.endpoint(listener)
            if endpoint is not None:
                nodes.append(Node(broker.id, *endpoint, broker.rack))
        return nodes

    async def ensure_internal_topic(self, topic: str) -> None:
        """Create one of Kafka's own topics if it is not there. Raises KafkaError."""
        if topic in self.image.topics:
            return
        created = (await self.auto_creation.create([topic]))[topic]
        if isinstance(created, KafkaError) and created.error is not Error.TOPIC_ALREADY_EXISTS:
            raise created

    def topic_config(self, topic: str) -> TopicConfig:
        """What a topic runs with, its own settings over the broker's."""
        return TopicConfig.resolve(self.config, self.image.config(TOPIC, topic))

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """Of every partition here, by topic and index."""
        return {key: partition.high_watermark for key, partition in self.partitions.items()}

    def directory_of(self, topic: str, index: int) -> LogDirectory:
        """The log directory that a partition placed here is in."""
        return self._directory_of[topic, index]

    def _partition_count(self, name: str) -> int:
        topic = self.image.topics.get(name)
        return len(topic.partitions) if topic is not None else 0

    # What follows from metadata.

    def place_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """Make the replica if there is none yet, and lead or follow as the image says."""
        key = topic.name, partition.index
        placed = self.partitions.get(key)
        if placed is not None and placed.topic_id != topic.id:
            self._drop(placed)
            placed = None
        if placed is None:
            placed = self._made(PartitionIdentity(topic.name, topic.id, partition.index))
            if placed is None:
                return
            self.partitions[key] = placed
        identity = self._directory_of[key].identity
        assert identity is not None, "claimed"
        self._reports.note(topic, partition, identity.directory_id)
        known_epoch = placed.leader_epoch
        placed.lead(Leadership(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch, isr=tuple(partition.isr),
            replicas=tuple(partition.replicas)))
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None and placed.leader_epoch != known_epoch:
            if placed.is_leader:
                coordinator.lead(partition.index, placed)
            else:
                coordinator.resign(partition.index)

    def drop_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """Give up the replica and its files."""
        placed = self.partitions.get((topic.name, partition.index))
        if placed is not None and placed.topic_id == topic.id:
            self._drop(placed)

    def configure_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Give every partition of the topic its new configuration."""
        found = self.image.topics.get(topic)
        config = TopicConfig.resolve(self.config, overrides)
        for index in found.partitions if found is not None else ():
            partition = self.partitions.get((topic, index))
            if partition is not None:
                partition.configure(config)

    def configure_broker(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Take over dynamic configuration: the broker's own, and the topics' defaults."""
        self.config = self.config.with_dynamic(cluster, broker)
        for topic in {partition.topic for partition in self.partitions.values()}:
            self.configure_topic(topic, self.image.config(TOPIC, topic))

    def topics_deleted(self, topics: Sequence[TopicImage]) -> None:
        """Have the groups forget what they committed for deleted topics."""
        self.groups.forget_partitions(frozenset(
            (topic.name, index) for topic in topics for index in topic.partitions))

    def _made(self, identity: PartitionIdentity) -> Partition | None:
        """A partition over the log that is there, or a new one; None where the log is broken."""
        topic, topic_id, index = identity
        key = topic, index
        if any(key in directory.offline for directory in self.directories):
            return None
        directory = self._directory_of.get(key)
        if directory is not None:
            found_id = directory.topic_ids.get(key)
            if found_id is None:
                directory.adopt(key, topic_id)
            elif found_id != topic_id:
                directory.set_aside_stray(key)
                directory = None
        if directory is None:
            directory = min(self.directories, key=lambda each: len(each.logs))
            directory.create(NewLog(topic=topic, topic_id=topic_id, partition=index,
                                    config=self.topic_config(topic)), self.clock.now_ms())
            self._directory_of[key] = directory
        partition = Partition(identity, directory.logs[key], self.node_id, self.clock)
        partition.sync_later = self.sync_later
        partition.restore_high_watermark(directory.high_watermarks.get(key, 0))
        return partition

    def _drop(self, partition: Partition) -> None:
        key = partition.topic, partition.index
        del self.partitions[key]
        partition.lead(replace(partition.leadership, leader_id=-1))
        coordinator = self._coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.resign(partition.index)
        self._directory_of.pop(key).delete(key, self.clock.now_ms())


def _locked(disk: Disk, config: BrokerConfig) -> list[LogDirectory]:
    """The log directories, that of the metadata log first."""
    paths = list(config.data_directories)
    metadata_path = config.metadata_log_dir or paths[0]
    if metadata_path not in paths:
        paths.insert(0, metadata_path)
    paths.sort(key=lambda path: path != metadata_path)
    directories: list[LogDirectory] = []
    try:
        for path in paths:
            directories.append(LogDirectory(disk, path))
    except BaseException:
        for directory in directories:
            directory.release()
        raise
    return directories


def _claim(directories: Sequence[LogDirectory], node_id: int, foundation: Foundation) -> str:
    """Make the directories this node's, new ones with an id of their own; the cluster's id."""
    cluster_ids = {directory.identity.cluster_id for directory in directories
                   if directory.identity is not None}
    if len(cluster_ids) > 1:
        raise UnusableDirectory(f"log directories of several clusters: {sorted(cluster_ids)}")
    new_id = foundation.new_id
    cluster_id = cluster_ids.pop() if cluster_ids else foundation.cluster_id or uuid_text(new_id())
    for directory in directories:
        known = directory.identity
        directory_id = known.directory_id if known is not None else new_id()
        directory.claim(Identity(cluster_id, node_id, directory_id))
    return cluster_id


def _metadata_config(config: BrokerConfig) -> TopicConfig:
    return TopicConfig(
        segment_bytes=config.metadata_log_segment_bytes, segment_ms=config.metadata_log_segment_ms,
        max_message_bytes=config.socket_request_max_bytes, retention_ms=-1, retention_bytes=-1)
