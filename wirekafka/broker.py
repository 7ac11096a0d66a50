"""One broker with all its parts, without sockets, on which request handlers work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from wirekafka.config.broker_config import TopicConfig
from wirekafka.controller import ControllerRole
from wirekafka.coordinator.coordinated_image import CoordinatedImage
from wirekafka.coordinator.groups.config import GroupConfig
from wirekafka.coordinator.groups.coordinator import GroupCoordinator
from wirekafka.coordinator.groups.kind_configs import KindConfigs
from wirekafka.coordinator.groups.options import GroupSettings
from wirekafka.coordinator.groups.share.groups import ShareGroups
from wirekafka.coordinator.groups.share.latest_offsets import LatestOffsets
from wirekafka.coordinator.groups.share.leader import ShareLeader
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.share_state.client import ShareStateClient
from wirekafka.coordinator.share_state.coordinator import ShareCoordinator, ShareCoordinatorParts
from wirekafka.coordinator.share_state.shard import ShareCoordinatorConfig
from wirekafka.coordinator.transactions.confirmation import ConfirmationOptions
from wirekafka.coordinator.transactions.coordinator import TransactionCoordinator, TransactionParts
from wirekafka.coordinator.transactions.markers import MarkerWriter
from wirekafka.coordinator.transactions.shard import TransactionConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.metadata.broker.auto_creation import AutoCreation
from wirekafka.metadata.broker.claim import claim, cordoned_ids, locked, registration_of
from wirekafka.metadata.broker.directory_failures import DirectoryFailures, may_be_offline
from wirekafka.metadata.broker.dynamic_config import DynamicConfig
from wirekafka.metadata.broker.isr_keeper import IsrKeeper
from wirekafka.metadata.broker.leadership import leadership_of
from wirekafka.metadata.broker.membership import Membership
from wirekafka.metadata.broker.publish import Publisher
from wirekafka.metadata.broker.source import Foundation, SourceParts
from wirekafka.metadata.compatibility import check_untiered
from wirekafka.metadata.controller.directories import DirectoryReports
from wirekafka.metadata.controller.producer_ids import ProducerIdSupply
from wirekafka.metadata.controller.quotas import enforce
from wirekafka.metadata.controller.registration import BrokerAddress, Endpoint
from wirekafka.metadata.image.followers import ImageBrokers, replication_throttle
from wirekafka.metadata.image.image import GROUP, TOPIC, PartitionImage, TopicImage
from wirekafka.metadata.image.snapshot_schedule import SnapshotSchedule
from wirekafka.quotas.client_quotas import ClientQuotas
from wirekafka.replication.fetching.fetch_sessions import FetchSessions
from wirekafka.replication.fetching.fetching import NO_FETCHING, Fetching
from wirekafka.replication.fetching.readers import Readers
from wirekafka.replication.partition.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.relocation import Relocations
from wirekafka.replication.partition.replica import NO_LEADER, PartitionIdentity
from wirekafka.replication.partition.schema_refusal import SchemaRefusal, refusal_without_registry
from wirekafka.replication.partition.tiered_partitions import TieredPartitions
from wirekafka.replication.partition.waiting import Waiting
from wirekafka.replication.raft.metadata_log import Sync, sync_inline
from wirekafka.runtime.observation import Committed
from wirekafka.security.authorizer import Authorizer
from wirekafka.telemetry.instances import ClientTelemetry

logger = logging.getLogger(__name__)


class Broker:
    """A broker's parts, and the changes that metadata makes to them (`publish.Host`).

    Construction locks the log directories and recovers their logs; `join` registers the broker,
    `stop` shuts it down. Raises UnusableDirectory, CorruptLog, OSError.
    """

    def __init__(self, foundation: Foundation):
        self._foundation = foundation
        self.config = foundation.config
        self.clock, self.disk = foundation.clock, foundation.disk
        self.node_id = self.config.node_id
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.waiting = Waiting(self.clock)
        self.new_id = foundation.new_id
        self.sessions = FetchSessions(  # A session id is no secret.
            self.config.max_incremental_fetch_session_cache_slots,
            Random(self.new_id()),  # noqa: S311
        )
        self.readers = Readers()
        self.measures = foundation.measures
        self.stored_quotas = ClientQuotas.of_broker(self.config, foundation.resolve)
        self.quotas: ClientQuotas | None = None
        """The quotas of clients; None while none is stored."""
        self.dynamic = DynamicConfig(self)
        self.sync_later: Callable[[Partition], None] | None = None
        """The `Replica.sync_later` of new partitions."""
        self.run_apart = foundation.run_apart
        """Reads the files of config providers while requests are served, then calls back."""
        self.check_apart: Sync = sync_inline
        """Checks batches that take long while other requests are served, then calls back."""
        self.schema_refusal: SchemaRefusal = refusal_without_registry
        """The error of a batch with records whose schemas are not registered for their topic."""
        self.fetching: Fetching = NO_FETCHING
        """Fetches the partitions that other brokers lead."""
        self.tiering: TieredPartitions | None = None
        """Tiered storage; None while it is not enabled."""
        self._directory_of: dict[tuple[str, int], LogDirectory] = {}
        self.directories = locked(self.disk, self.config)
        try:
            named = foundation.cluster_id
            self.cluster_id = claim(self.directories, self.node_id, named, self.new_id)
            self._open()
        except BaseException:
            for directory in self.directories:
                directory.release()
            raise

    def _open(self) -> None:
        foundation = self._foundation
        now_ms = self.clock.now_ms()
        incarnation_id = self.new_id()
        failed = foundation.failed
        self.metadata = Publisher(self.node_id, self, self.clock, failed)
        self.image = self.metadata.image
        self.authorizer = Authorizer.of(self.config, lambda: self.image.security.acl_index)
        self.telemetry = ClientTelemetry(self.image, self.new_id)
        self._topics = CoordinatedImage(self.image)
        self._followers = ImageBrokers(self.image, self.config.replica_lag_time_max_ms)
        self.source = foundation.source(
            SourceParts(
                foundation=foundation,
                config=lambda: self.config,
                cluster_id=self.cluster_id,
                directory=self.directories[0],
                incarnation_id=incarnation_id,
                published=self.metadata,
            )
        )
        self.feed, self.quorum = self.source.feed, self.source.log
        self.controller_channel = self.source.channel
        self.source.load()
        self.metadata_snapshots = SnapshotSchedule(self.quorum, self.metadata, now_ms)
        self.dynamic.load(self.image)
        self._membership = Membership(
            self.controller_channel,
            self.metadata,
            foundation.node_clock or self.clock,
            registration_of(self.directories, self.config, incarnation_id),
            lambda: self.config,
            cordoned=lambda: cordoned_ids(self.directories, self.config),
        )
        self._membership.on_unreported = failed
        DirectoryFailures(self.directories, self._membership, self.clock, self._retire, failed)
        self.directory_reports = DirectoryReports(self._membership, self.image, self.clock)
        self.isr_keeper = IsrKeeper(self._membership, self.partitions, self.clock)
        self.relocations = Relocations(self, self._directory_of)
        self.leader_throttle = replication_throttle(self.image, self.config, "leader")
        self._open_coordinators(foundation)

    def _load_logs(self) -> None:
        now_ms = self.clock.now_ms()
        recover = self._foundation.recover
        if recover is not None:
            recover = partial(recover, processes=self.config.num_recovery_threads_per_data_dir)
        for directory in self.directories:
            directory.load(self.topic_config, now_ms, recover)
        self.relocations.locate_logs(self.image.topics)

    def _open_coordinators(self, foundation: Foundation) -> None:
        self.routing = Routing(self.node_id, self.image.leader_of)
        self._open_groups()
        self.auto_creation = AutoCreation(self.controller_channel, lambda: self.config, self.clock)
        self.producer_ids = ProducerIdSupply(self._membership.allocate_producer_ids)
        self.transactions = TransactionCoordinator(
            TransactionParts(
                TransactionConfig.of(self.config),
                self.producer_ids,
                self.markers,
                self.routing,
                lambda index: self.partitions[TRANSACTIONS_TOPIC, index].leader_epoch,
                lambda: ConfirmationOptions.of(self.config),
            ),
            self.clock,
            lambda: self.image.partition_count(TRANSACTIONS_TOPIC),
            foundation.failed,
        )
        self._open_share_states()
        self._coordinators: dict[str, Shards] = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
            SHARE_STATE_TOPIC: self.share_coordinator,
        }

    def _open_groups(self) -> None:
        options = GroupSettings(lambda: self.config, partial(self.image.config, GROUP))
        self.groups = GroupCoordinator(
            GroupConfig.of(self.config),
            self.clock,
            lambda: self.image.partition_count(OFFSETS_TOPIC),
            self._foundation.failed,
            kinds=KindConfigs.of(self.config),
            topics=self._topics,
            options=options.consumer,
            share_options=options.share,
            streams_options=options.streams,
        )
        self._topics.on_change = self.groups.topics_changed
        self.markers = MarkerWriter(self.partition, self.groups)

    def _open_share_states(self) -> None:
        states = partial(self.partition, SHARE_STATE_TOPIC)
        self.share_coordinator = ShareCoordinator(
            ShareCoordinatorParts(
                ShareCoordinatorConfig.of(self.config),
                self._topics,
                lambda index, offset: states(index).delete_records(offset),
            ),
            self.clock,
            lambda: self.image.partition_count(SHARE_STATE_TOPIC),
            self._foundation.failed,
        )
        self.share_states = ShareStateClient(
            self.share_coordinator,
            self.routing,
            partial(self.ensure_internal_topic, SHARE_STATE_TOPIC),
            self.clock,
        )
        self.shares = ShareLeader(self)
        latest = LatestOffsets(self.partition, self.routing)
        self.share_groups = ShareGroups(self.groups, self.share_states, self._topics, latest)

    async def join(self, endpoints: Sequence[Endpoint]) -> None:
        """Catch up with the metadata, recover the logs, register, and place the partitions.

        Raises UnusableDirectory, CorruptLog, KafkaError, OSError.
        """
        await self.source.catch_up()
        if not self.config.remote_log_storage_system_enable:
            # Only now does a broker know all topics, unless it is the only controller as well.
            check_untiered(self.image, self.node_id)
        self.dynamic.load(self.image)
        self._load_logs()
        await self.source.start()
        await self._membership.join(endpoints)
        await self.metadata.start()
        self.isr_keeper.start(self.config.replica_lag_time_max_ms)
        for key, directory in list(self._directory_of.items()):
            known = self.image.partition(*key)
            # A partition that is assigned to this broker is kept even if placing it has failed.
            is_replica = known is not None and self.node_id in known.replicas
            if key not in self.partitions and not is_replica:
                del self._directory_of[key]
                directory.set_aside_stray(key)
        self.relocations.resume()

    async def hand_over(self) -> None:
        """Move leaderships to other live brokers, if any, while clients are still served."""
        others = [broker for broker in self.image.live_brokers() if broker.id != self.node_id]
        if not others:
            return
        try:
            await self._membership.leave(self.source.cut_off)
        except KafkaError as error:
            logger.error("The leaderships were not moved to other brokers: %s", error)

    def release_waiting(self) -> None:
        """Release parked requests: fetches with the present data, group requests with an error."""
        self.waiting.close()
        self.shares.stop()
        self.groups.stop()
        self.share_states.stop()

    async def stop(self) -> None:
        """Shut down: move leaderships, and close the log directories cleanly.

        Failures to write are logged; the next start then recovers the directory.
        """
        self.release_waiting()
        try:
            await self._membership.leave(self.source.cut_off)
            await self.feed.reached(self.quorum.committed_offset)
        except Exception as error:  # Including the error that ended the feed, if one did.
            logger.error("The shutdown was not recorded in the metadata log: %s", error)
        self.fetching.stop()
        self.transactions.stop()
        self.groups.stop()
        self.share_coordinator.stop()
        self.isr_keeper.stop()
        await self.source.stop()
        self.metadata_snapshots.write_at_stop()
        high_watermarks = self.high_watermarks()
        for directory in self.directories:
            try:
                directory.close_cleanly(high_watermarks, self._membership.broker_epoch)
            except OSError as error:
                logger.error("%s has to be recovered at the next start: %s", directory.path, error)

    def abort(self) -> None:
        """Release the directories without closing the logs, as if the process was killed."""
        self._membership.stop()
        self.isr_keeper.stop()
        self.fetching.stop()
        self.source.abort()
        for directory in self.directories:
            directory.release()

    # For request handlers.

    @property
    def epoch(self) -> int:
        """The broker epoch of the current registration; -1 before it."""
        return self._membership.broker_epoch

    @property
    def unanswered_ms(self) -> int:
        """For how long no controller has answered a heartbeat, once that exceeds the session
        timeout, after which others take over the leaderships; 0 before."""
        return self._membership.unanswered_ms

    @property
    def controller(self) -> ControllerRole:
        """The controller in this process."""
        assert isinstance(self.source.controller, ControllerRole), "it is elsewhere"
        return self.source.controller

    @property
    def metadata_offset(self) -> int:
        """The last metadata offset that this broker has applied."""
        return self.metadata.end_offset - 1

    def partition(self, topic: str, index: int) -> Partition:
        """Look up a partition by topic name.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER if it exists without
        a replica here; KAFKA_STORAGE_ERROR if its log is broken.
        """
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        if any((topic, index) in directory.offline for directory in self.directories):
            raise KafkaError(Error.KAFKA_STORAGE_ERROR)
        if self.image.partition(topic, index) is not None:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Look up a partition by topic id.

        Raises KafkaError: UNKNOWN_TOPIC_ID, and as `partition`; INCONSISTENT_TOPIC_ID while a
        topic that was created again under the same name is being placed.
        """
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_ID)
        partition = self.partition(topic.name, index)
        if partition.topic_id != topic_id:
            raise KafkaError(Error.INCONSISTENT_TOPIC_ID)
        return partition

    def nodes(self, listener: str) -> list[BrokerAddress]:
        """The unfenced brokers with their addresses on a listener."""
        return [
            BrokerAddress(broker.id, *endpoint, broker.rack)
            for broker in self.image.live_brokers()
            if (endpoint := broker.endpoint(listener)) is not None
        ]

    async def ensure_internal_topic(self, topic: str) -> None:
        """Create an internal topic if it does not exist. Raises KafkaError."""
        if topic not in self.image.topics:
            await self.auto_creation.ensure(topic)

    def topic_config(self, topic: str) -> TopicConfig:
        """The effective configuration of a topic: its own settings over the broker's."""
        return self.config.topic_config(self.image.config(TOPIC, topic))

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """The high watermark of every partition here, by topic and index."""
        return {key: partition.high_watermark for key, partition in self.partitions.items()}

    def directory_of(self, topic: str, index: int) -> LogDirectory:
        """The log directory of a partition that is placed here."""
        return self._directory_of[topic, index]

    def report_directory(self, key: tuple[str, int]) -> None:
        """Report to the controller in which directory a replica is (`relocation.Holder`)."""
        topic = self.image.topics.get(key[0])
        identity = self._directory_of[key].identity
        if topic is not None and key[1] in topic.partitions and identity is not None:
            self.directory_reports.note(topic, topic.partitions[key[1]], identity.directory_id)

    # Changes of metadata (`publish.Host`).

    def place_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """Create the replica if there is none yet, and lead or follow as the image says."""
        key = topic.name, partition.index
        placed = self.partitions.get(key)
        if placed is not None and placed.topic_id != topic.id:
            self._drop(placed)
            placed = None
        if placed is None:
            identity = PartitionIdentity(topic.name, topic.id, partition.index)
            placed = self._made(identity, partition.directory_of(self.node_id))
            if placed is None:
                return
            self.partitions[key] = placed
        self.report_directory(key)
        known_epoch = placed.leader_epoch
        take_role = placed.lead if partition.leader == self.node_id else placed.follow
        take_role(leadership_of(partition))
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None and placed.leader_epoch != known_epoch:
            if placed.is_leader:
                coordinator.elected(partition.index, placed)
            else:
                coordinator.resign(partition.index)
        if self.tiering is not None:
            self.tiering.placed(placed)
        (self.fetching.forget if placed.is_leader else self.fetching.follow)(placed)

    def drop_partition(self, topic: TopicImage, partition: PartitionImage) -> None:
        """Delete the replica and its files."""
        key = topic.name, partition.index
        placed = self.partitions.get(key)
        if placed is not None and placed.topic_id == topic.id:
            self._drop(placed)
            return
        directory = self._directory_of.get(key)
        if placed is None and directory is not None and directory.topic_ids.get(key) == topic.id:
            self._delete(key)  # A retry: deleting the files has failed before.

    def configure_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Apply a new configuration to every partition of the topic."""
        found = self.image.topics.get(topic)
        config = self.config.topic_config(overrides)
        for index in found.partitions if found is not None else ():
            partition = self.partitions.get((topic, index))
            if partition is not None:
                partition.configure(config)
                if self.tiering is not None:
                    self.tiering.placed(partition)

    def configure_broker(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Apply dynamic configuration: the broker's own, and the defaults of topics."""
        self.dynamic.apply(cluster, broker)

    def configured(self) -> None:
        """Apply the present configuration (`dynamic_config.Configured`)."""
        for topic in {partition.topic for partition in self.partitions.values()}:
            self.configure_topic(topic, self.image.config(TOPIC, topic))
        self.fetching.configured()
        self._membership.configured()

    def image_changed(self, committed: Committed, removed: Sequence[TopicImage]) -> None:
        """Change quotas, and notify the groups of topics that have changed."""
        self.quotas = enforce(self.stored_quotas, committed)
        self._topics.changed(committed, removed)

    def topics_deleted(self, topics: Sequence[TopicImage]) -> None:
        """Delete committed offsets and states of share groups for deleted topics."""
        keys = frozenset((topic.name, index) for topic in topics for index in topic.partitions)
        self.groups.forget_partitions(keys)
        self.groups.forget_topics(frozenset(topic.id for topic in topics))
        self.share_coordinator.delete_topics(frozenset(topic.id for topic in topics))

    def _made(self, identity: PartitionIdentity, assigned: bytes) -> Partition | None:
        """Create a partition on its existing log or a new log; None if the log is offline."""
        topic, topic_id, index = identity
        key = topic, index
        directory = self._directory_of.get(key)
        if directory is None and may_be_offline(self.directories, identity, assigned):
            return None
        if directory is not None:
            found_id = directory.topic_ids.get(key)
            if found_id is None:
                directory.adopt(key, topic_id)
            elif found_id != topic_id:
                directory.set_aside_stray(key)
                directory = None
        if directory is None:
            directory = self.relocations.create_log(identity, self.topic_config(topic))
            self._directory_of[key] = directory
        partition = Partition(identity, directory.logs[key], self.node_id, self.clock)
        config = self.topic_config(topic)
        if partition.log.config != config:
            # It was loaded by the metadata of then, which has changed while the broker joined.
            partition.configure(config)
        partition.brokers = self._followers
        partition.sync_later = self.sync_later
        partition.traffic = self.measures.traffic.of(topic) if self.measures else None
        partition.truncated = partial(directory.checkpoint_truncation, key)
        partition.propose_later = self.isr_keeper.note
        partition.restore_high_watermark(directory.high_watermarks.get(key, 0))
        return partition

    def _retire(self, directory: LogDirectory) -> None:
        """Close the partitions in a failed directory, whose files stay as they are."""
        for key in [key for key, place in self._directory_of.items() if place is directory]:
            del self._directory_of[key]
            if key in self.partitions:
                self._close(self.partitions[key])
        self.relocations.abandon(directory)

    def _drop(self, partition: Partition) -> None:
        key = partition.topic, partition.index
        if self.tiering is not None:
            self.tiering.dropped(partition)
        self._close(partition)
        self.relocations.cancel(key)
        self._delete(key)

    def _close(self, partition: Partition) -> None:
        """End the partition's role, and the role of a coordinator on it."""
        del self.partitions[partition.topic, partition.index]
        if self.tiering is not None:
            self.tiering.forget(partition)
        partition.follow(replace(partition.leadership, leader_id=NO_LEADER))
        self.fetching.forget(partition)
        coordinator = self._coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.resign(partition.index)

    def _delete(self, key: tuple[str, int]) -> None:
        directory = self._directory_of[key]
        log = directory.logs[key]
        try:
            directory.delete(key, self.clock.now_ms())
        except OSError as error:
            directory.logs.setdefault(key, log)  # For the retry.
            directory.note(error)
            raise
        del self._directory_of[key]
