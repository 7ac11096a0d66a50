"""The metadata image: the state that results from replaying the metadata records in order.

Controller and brokers use the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from wirekafka.metadata.image.framing import ELR_FEATURE, METADATA_FEATURE
from wirekafka.metadata.image.security import SecurityImage
from wirekafka.protocol.records import metadata as r

MIGRATING_DIRECTORY = bytes(16)
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
LOST_DIRECTORY = bytes(15) + b"\x02"
"""Kafka's reserved ids: unknown since an older metadata.version, not yet known, failed."""
_NOT_LOCATED = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
RESERVED_DIRECTORIES = 100
"""Ids below this number are reserved: no log directory has such an id."""
_UNCHANGED = -2
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""ConfigResource types, as in records and requests."""


@dataclass(slots=True)
class PartitionImage:
    """One partition's assignment and leadership. It is replaced, never changed."""

    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    leader_recovery_state: int = 0
    directories: list[bytes] = field(default_factory=list)
    eligible_leader_replicas: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, record: r.PartitionRecord) -> PartitionImage:
        """Create the image of a new partition; it shares the record's lists, which never change."""
        return cls(
            record.partition_id,
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.removing_replicas,
            record.adding_replicas,
            record.leader_recovery_state,
            record.directories,
            record.eligible_leader_replicas or [],
            record.last_known_elr or [],
        )

    def directory_of(self, broker: int) -> bytes:
        """The id of the log directory of a broker's replica; a reserved id while it is unknown."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker:
                return directory
        return MIGRATING_DIRECTORY

    def to_record(self, topic_id: bytes) -> r.PartitionRecord:
        """The record that recreates this image."""
        return r.PartitionRecord(
            partition_id=self.index,
            topic_id=topic_id,
            replicas=self.replicas,
            isr=self.isr,
            removing_replicas=self.removing_replicas,
            adding_replicas=self.adding_replicas,
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=self.directories,
            eligible_leader_replicas=self.eligible_leader_replicas or None,
            last_known_elr=self.last_known_elr or None,
        )

    def after(self, record: r.PartitionChangeRecord) -> PartitionImage:
        """The partition with the fields that the record sets; null means unchanged."""
        keeps_leader = record.leader == _UNCHANGED
        recovery_state = record.leader_recovery_state
        return PartitionImage(
            self.index,
            _set(self.replicas, record.replicas),
            _set(self.isr, record.isr),
            self.leader if keeps_leader else record.leader,
            self.leader_epoch if keeps_leader else self.leader_epoch + 1,
            self.partition_epoch + 1,
            _set(self.removing_replicas, record.removing_replicas),
            _set(self.adding_replicas, record.adding_replicas),
            self.leader_recovery_state if recovery_state == -1 else recovery_state,
            _set(self.directories, record.directories),
            _set(self.eligible_leader_replicas, record.eligible_leader_replicas),
            _set(self.last_known_elr, record.last_known_elr),
        )


T = TypeVar("T")


def _set(present: T, wanted: T | None) -> T:
    return present if wanted is None else wanted


@dataclass(slots=True)
class TopicImage:
    """One topic; `partitions` is keyed by index, which may arrive in any order."""

    name: str
    id: bytes
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerImage:
    """A broker's last registration, with later changes applied."""

    registration: r.RegisterBrokerRecord

    @property
    def id(self) -> int:
        return self.registration.broker_id

    @property
    def epoch(self) -> int:
        return self.registration.broker_epoch

    @property
    def fenced(self) -> bool:
        return self.registration.fenced

    @property
    def rack(self) -> str | None:
        return self.registration.rack

    def endpoint(self, listener: str) -> tuple[str, int] | None:
        """The advertised host and port of a listener; None if the broker does not have it."""
        for end_point in self.registration.end_points:
            if end_point.name == listener:
                return end_point.host, end_point.port
        return None

    def has_online(self, directory: bytes) -> bool:
        """Whether a log directory is in service; yes for a broker that has registered none."""
        if directory in _NOT_LOCATED:
            return True
        online = self.registration.log_dirs
        return directory != LOST_DIRECTORY and (not online or directory in online)

    def change(self, record: r.BrokerRegistrationChangeRecord) -> None:
        """Apply a change; in its flags 0 means unchanged, -1 off and 1 on."""
        registration = self.registration
        if record.fenced:
            registration.fenced = record.fenced > 0
        if record.in_controlled_shutdown:
            registration.in_controlled_shutdown = record.in_controlled_shutdown > 0
        if record.log_dirs:
            registration.log_dirs = record.log_dirs
        if record.cordoned_log_dirs is not None:
            registration.cordoned_log_dirs = record.cordoned_log_dirs


class MetadataImage:
    """Topics, configs, brokers, features and security metadata, keyed for lookup."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, r.RegisterControllerRecord] = {}
        self.next_producer_id = 0
        self.security = SecurityImage()
        self.generation = 0
        """Incremented by every change, so that caches derived from the image can be invalidated."""
        self._transaction: list[Any] | None = None

    @property
    def metadata_version(self) -> int:
        """The feature level of `metadata.version`; 0 if it is not set."""
        return self.features.get(METADATA_FEATURE, 0)

    @property
    def has_elr(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.features.get(ELR_FEATURE, 0) > 0

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open, whose records are held back."""
        return self._transaction is not None

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The values set on one resource; must not be modified."""
        return self.configs.get((resource_type, name), {})

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """One partition by topic name."""
        found = self.topics.get(topic)
        return found.partitions.get(index) if found else None

    def is_online(self, partition: PartitionImage, broker: int) -> bool:
        """Whether a replica is on an unfenced broker, in a log directory that has not failed."""
        found = self.brokers.get(broker)
        return (
            found is not None
            and not found.fenced
            and found.has_online(partition.directory_of(broker))
        )

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic; 0 if the topic does not exist."""
        found = self.topics.get(topic)
        return len(found.partitions) if found else 0

    def leader_of(self, topic: str, index: int) -> int | None:
        """The id of a partition's leader, -1 if it has none; None for an unknown partition."""
        partition = self.partition(topic, index)
        return None if partition is None else partition.leader

    def live_brokers(self) -> list[BrokerImage]:
        """The unfenced brokers, ordered by id."""
        return [self.brokers[id] for id in sorted(self.brokers) if not self.brokers[id].fenced]

    def replay(self, record: Any) -> Sequence[Any]:
        """Apply one record; records of a metadata transaction are applied at its end (KIP-868).

        Returns the records that have taken effect by this call.
        """
        applied: Sequence[Any] = ()
        match record:
            case r.NoOpRecord():
                pass
            case r.BeginTransactionRecord():
                self._transaction = []
            case r.AbortTransactionRecord():
                self._transaction = None
            case r.EndTransactionRecord():
                applied = self._transaction or ()
                self._transaction = None
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                applied = (record,)
        for each in applied:
            self._apply(each)
        return applied

    def become(self, other: MetadataImage) -> None:
        """Take over the contents of `other`, which must not be used afterwards."""
        generation = self.generation + 1
        other.security.acl_index.is_loaded = self.security.acl_index.is_loaded
        vars(self).update(vars(other))
        self.generation = generation

    def _apply(self, record: Any) -> None:
        self.generation += 1
        match record:
            case r.PartitionChangeRecord():
                partitions = self.topics_by_id[record.topic_id].partitions
                index = record.partition_id
                partitions[index] = partitions[index].after(record)
            case r.PartitionRecord():
                partitions = self.topics_by_id[record.topic_id].partitions
                partitions[record.partition_id] = PartitionImage.of(record)
            case r.TopicRecord():
                topic = TopicImage(record.name, record.topic_id)
                self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
            case r.RemoveTopicRecord():
                topic = self.topics_by_id.pop(record.topic_id)
                del self.topics[topic.name]
                self.configs.pop((TOPIC, topic.name), None)
            case r.ConfigRecord():
                self._set_config(record)
            case r.ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case r.ClearElrRecord():
                self._clear_elr(record.topic_name)
            case r.FeatureLevelRecord():
                self.features[record.name] = record.feature_level
                if not record.feature_level:
                    del self.features[record.name]
            case r.ZkMigrationStateRecord():
                pass  # Kafka 3.4 to 3.9 write it without a ZooKeeper migration too.
            case _:
                self._apply_registration(record)

    def _apply_registration(self, record: Any) -> None:
        match record:
            case r.RegisterBrokerRecord():
                # A copy: other images share the record and must not see later changes.
                self.brokers[record.broker_id] = BrokerImage(copy(record))
            case r.BrokerRegistrationChangeRecord():
                self.brokers[record.broker_id].change(record)
            case r.FenceBrokerRecord():
                self.brokers[record.id].registration.fenced = True
            case r.UnfenceBrokerRecord():
                self.brokers[record.id].registration.fenced = False
            case r.UnregisterBrokerRecord():
                self.brokers.pop(record.broker_id, None)
            case r.RegisterControllerRecord():
                self.controllers[record.controller_id] = record
            case r.UnregisterControllerRecord():
                self.controllers.pop(record.controller_id, None)
            case _:
                self.security.replay(record)

    def _set_config(self, record: r.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = self.configs.setdefault(resource, {})
        if record.value is not None:
            values[record.name] = record.value
            return
        values.pop(record.name, None)
        if not values:
            del self.configs[resource]

    def _clear_elr(self, topic_name: str) -> None:
        topics = [self.topics[topic_name]] if topic_name else list(self.topics.values())
        for topic in topics:
            for index, partition in topic.partitions.items():
                topic.partitions[index] = replace(
                    partition, eligible_leader_replicas=[], last_known_elr=[]
                )

    def frozen(self) -> MetadataImage:
        """A copy that does not change with this image; cheap, because partitions are shared."""
        frozen = copy(self)
        frozen.features = dict(self.features)
        frozen.topics = {
            name: TopicImage(name, topic.id, dict(topic.partitions))
            for name, topic in self.topics.items()
        }
        frozen.topics_by_id = {topic.id: topic for topic in frozen.topics.values()}
        frozen.configs = {resource: dict(values) for resource, values in self.configs.items()}
        frozen.brokers = {
            id: BrokerImage(copy(broker.registration)) for id, broker in self.brokers.items()
        }
        frozen.controllers = dict(self.controllers)
        frozen.security = self.security.frozen()
        if self._transaction is not None:
            frozen._transaction = list(self._transaction)
        return frozen

    def copied(self) -> MetadataImage:
        """A copy on which further records can be replayed, independent of this image."""
        copied = self.frozen()
        copied.security = self.security.copied()
        return copied

    def snapshot(self) -> Iterator[Any]:
        """Records that recreate this image, in the order of Kafka's own snapshots."""
        for name in sorted(self.features, key=lambda name: (name != METADATA_FEATURE, name)):
            yield r.FeatureLevelRecord(name=name, feature_level=self.features[name])
        for broker in self.brokers.values():
            yield broker.registration
        yield from self.controllers.values()
        for topic in self.topics.values():
            yield r.TopicRecord(name=topic.name, topic_id=topic.id)
            for index in sorted(topic.partitions):
                yield topic.partitions[index].to_record(topic.id)
        yield from self._config_records()
        yield from self.security.before_producer_ids()
        if self.next_producer_id:
            yield r.ProducerIdsRecord(
                broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id
            )
        yield from self.security.after_producer_ids()

    def _config_records(self) -> Iterable[Any]:
        for (resource_type, resource_name), values in self.configs.items():
            for name, value in values.items():
                yield r.ConfigRecord(
                    resource_type=resource_type, resource_name=resource_name, name=name, value=value
                )
