"""The configuration of tiered storage: which store and layout, and the metadata topic."""

from __future__ import annotations

from dataclasses import dataclass

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.listeners import own_names
from wirekafka.config.option import ConfigError
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import FOLDER, LocalLayout
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC
from wirekafka.tiered.store import ObjectStore, Store

CLASS_NAME = "remote.log.storage.manager.class.name"
METADATA_CLASS = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_CLASSES = (LOCAL_CLASS,)
_PARTITIONS, _REPLICATION_FACTOR, _FOREVER_MS, _MIN_INSYNC = 50, 3, -1, 2


def check_metadata_manager(config: BrokerConfig) -> None:
    """Raise ConfigError unless the metadata is to be where it is here."""
    name = config.remote_log_metadata_manager_class_name
    if name != METADATA_CLASS:
        raise ConfigError(
            "remote.log.metadata.manager.class.name", name, f"supported is {METADATA_CLASS}"
        )
    listener = config.remote_log_metadata_manager_listener_name
    if listener is not None and listener not in own_names(config):
        # The brokers' own connections are used in any case.
        raise ConfigError(
            "remote.log.metadata.manager.listener.name",
            listener,
            "Should be set as a listener name within valid broker listener name list",
        )


def opened_layout(config: BrokerConfig, store: Store | None) -> Layout:
    """The layout that the configuration names, on its store or on another one.

    Raises ConfigError, or KafkaError(INVALID_CONFIG) where the store cannot be opened.
    """
    name = config.remote_log_storage_manager_class_name
    if name == LOCAL_CLASS:
        return LocalLayout(store or ObjectStore.of_directory(_local_directory(config)))
    raise ConfigError(CLASS_NAME, name, f"supported are {', '.join(_CLASSES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopicOptions:
    """The options of the metadata topic, with Kafka's defaults."""

    partitions: int = _PARTITIONS
    replication_factor: int | None = None
    """None is 3, or as many brokers as there are."""
    retention_ms: int = _FOREVER_MS
    min_insync_replicas: int = _MIN_INSYNC

    @classmethod
    def of(cls, config: BrokerConfig) -> MetadataTopicOptions:
        """The options in a broker's configuration. Raises ConfigError."""
        prefix = f"{config.remote_log_metadata_manager_impl_prefix}remote.log.metadata.topic."

        def number(name: str, default: int) -> int:
            text = config.sources.static_value(prefix + name)
            if text is None:
                return default
            try:
                return int(text)
            except ValueError:
                raise ConfigError(prefix + name, text, "not a number") from None

        return cls(
            partitions=number("num.partitions", _PARTITIONS),
            replication_factor=number("replication.factor", 0) or None,
            retention_ms=number("retention.ms", _FOREVER_MS),
            min_insync_replicas=number("min.isr", _MIN_INSYNC),
        )

    def topic(self, live_brokers: int) -> NewTopic:
        """The topic as Kafka's brokers create it."""
        replicas = self.replication_factor or max(1, min(_REPLICATION_FACTOR, live_brokers))
        return NewTopic(
            name=REMOTE_LOG_METADATA_TOPIC,
            num_partitions=self.partitions,
            replication_factor=replicas,
            configs={
                "cleanup.policy": "delete",
                "retention.ms": str(self.retention_ms),
                "remote.storage.enable": "false",
                "min.insync.replicas": str(min(self.min_insync_replicas, replicas)),
            },
        )


def _local_directory(config: BrokerConfig) -> str:
    name = f"{config.remote_log_storage_manager_impl_prefix}dir"
    directory = config.sources.static_value(name)
    if not directory:
        raise ConfigError(name, directory or "", "LocalTieredStorage needs a directory")
    return f"{directory}/{FOLDER}"
