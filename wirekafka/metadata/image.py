"""The cluster as its metadata records tell it: a fold, the same on controller and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from wirekafka.metadata import records as r
from wirekafka.metadata.framing import ELR_FEATURE, METADATA_FEATURE
from wirekafka.metadata.security import SecurityImage

NO_LEADER = -1
_UNCHANGED = -2
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""ConfigResource types, as in records and requests."""

_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def is_internal(topic: str) -> bool:
    """Whether Kafka itself writes this topic."""
    return topic in _INTERNAL_TOPICS


@dataclass(slots=True)
class PartitionImage:
    """One partition's assignment and leadership."""

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
        """As the record creates it."""
        return cls(
            index=record.partition_id,
            replicas=list(record.replicas),
            isr=list(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=list(record.removing_replicas),
            adding_replicas=list(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
            directories=list(record.directories),
            eligible_leader_replicas=list(record.eligible_leader_replicas or ()),
            last_known_elr=list(record.last_known_elr or ()),
        )

    def to_record(self, topic_id: bytes) -> r.PartitionRecord:
        """The record that makes this image."""
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

    def change(self, record: r.PartitionChangeRecord) -> None:
        """Take over what the record sets; null means unchanged."""
        if record.replicas is not None:
            self.replicas = list(record.replicas)
        if record.isr is not None:
            self.isr = list(record.isr)
        if record.removing_replicas is not None:
            self.removing_replicas = list(record.removing_replicas)
        if record.adding_replicas is not None:
            self.adding_replicas = list(record.adding_replicas)
        if record.directories is not None:
            self.directories = list(record.directories)
        if record.eligible_leader_replicas is not None:
            self.eligible_leader_replicas = list(record.eligible_leader_replicas)
        if record.last_known_elr is not None:
            self.last_known_elr = list(record.last_known_elr)
        if record.leader_recovery_state != -1:
            self.leader_recovery_state = record.leader_recovery_state
        if record.leader != _UNCHANGED:
            self.leader = record.leader
            self.leader_epoch += 1
        self.partition_epoch += 1


@dataclass(slots=True)
class TopicImage:
    """One topic; `partitions` is keyed by index, which may arrive in any order."""

    name: str
    id: bytes
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerImage:
    """A broker's last registration and what changed since."""

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
        """Advertised host and port of a listener by its name."""
        for end_point in self.registration.end_points:
            if end_point.name == listener:
                return end_point.host, end_point.port
        return None

    def change(self, record: r.BrokerRegistrationChangeRecord) -> None:
        """Take over what the record sets; 0 means unchanged, -1 off and 1 on."""
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
    """Topics, configs, brokers, features and the rest, in lookup order."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, r.RegisterControllerRecord] = {}
        self.next_producer_id = 0
        self.security = SecurityImage()
        self._transaction: list[Any] | None = None

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_FEATURE, 0)

    @property
    def has_elr(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.features.get(ELR_FEATURE, 0) > 0

    @property
    def in_transaction(self) -> bool:
        """Whether records wait for the end of a metadata transaction."""
        return self._transaction is not None

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """What was set on one resource; not to be changed."""
        return self.configs.get((resource_type, name), {})

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """One partition by topic name."""
        found = self.topics.get(topic)
        return found.partitions.get(index) if found else None

    def live_brokers(self) -> list[BrokerImage]:
        """Brokers that are not fenced, by id."""
        return [self.brokers[id] for id in sorted(self.brokers) if not self.brokers[id].fenced]

    def replay(self, record: Any) -> None:
        """Take in one record. Those of a metadata transaction count once it ends (KIP-868)."""
        match record:
            case r.BeginTransactionRecord():
                self._transaction = []
            case r.AbortTransactionRecord():
                self._transaction = None
            case r.EndTransactionRecord():
                held, self._transaction = self._transaction or [], None
                for inner in held:
                    self._apply(inner)
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: Any) -> None:
        match record:
            case r.PartitionChangeRecord():
                self.topics_by_id[record.topic_id].partitions[record.partition_id].change(record)
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
            case r.NoOpRecord():
                pass
            case _:
                self._apply_registration(record)

    def _apply_registration(self, record: Any) -> None:
        match record:
            case r.RegisterBrokerRecord():
                # A copy: other folds of the same record must not see what changes here.
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
            for partition in topic.partitions.values():
                partition.eligible_leader_replicas = []
                partition.last_known_elr = []

    def snapshot(self) -> Iterator[Any]:
        """Records that make this image, in the order of Kafka's own snapshots."""
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
                broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        yield from self.security.after_producer_ids()

    def _config_records(self) -> Iterable[Any]:
        for (resource_type, resource_name), values in self.configs.items():
            for name, value in values.items():
                yield r.ConfigRecord(resource_type=resource_type, resource_name=resource_name,
                                     name=name, value=value)
