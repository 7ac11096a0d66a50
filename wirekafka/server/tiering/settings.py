"""The configuration of tiered storage: which store and layout, and the metadata topic."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.check import at_least, between
from wirekafka.config.endpoints.listeners import own_names
from wirekafka.config.option import Check, ConfigError
from wirekafka.config.own import TIER, tier_url
from wirekafka.metadata.controller.topics import NewTopic
from wirekafka.tiered.chunked_layout import ChunkedLayout, ChunkOptions
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import FOLDER, LocalLayout
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC
from wirekafka.tiered.store import ObjectStore, Store, StoreError

logger = logging.getLogger(__name__)

CLASS_NAME = "remote.log.storage.manager.class.name"
METADATA_CLASS = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
AIVEN_CLASS = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
_CLASSES = (LOCAL_CLASS, AIVEN_CLASS)
_CHUNK_BYTES = 4 << 20
_STORAGE = "storage."
_AIVENS = {
    "chunk.size",
    "compression.enabled",
    "compression.heuristic.enabled",
    "encryption.enabled",
    "key.prefix",
    "storage.aws.access.key.id",
    "storage.aws.secret.access.key",
    "storage.azure.container.name",
    "storage.backend.class",
    "storage.gcs.bucket.name",
    "storage.root",
    "storage.s3.bucket.name",
    "storage.s3.endpoint.url",
    "storage.s3.path.style.access.enabled",
    "storage.s3.region",
}
"""The options of Aiven's plugin that have an effect here."""
_AIVENS_TUNING = {
    "storage.azure.upload.block.size",
    "storage.gcs.resumable.upload.chunk.size",
    "storage.overwrite.enabled",
    "storage.s3.api.call.attempt.timeout",
    "storage.s3.api.call.timeout",
    "storage.s3.multipart.upload.part.size",
}
"""Options of its stores that change neither where objects go nor who may read them."""
_LARGEST_CHUNK_BYTES = (1 << 30) - 1
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
    url, name = tier_url(config.sources), config.remote_log_storage_manager_class_name
    if url is not None:
        if name is not None:
            raise ConfigError(CLASS_NAME, name, f"{TIER} is set as well: leave out one of them")
        options = ChunkOptions(chunk_bytes=_CHUNK_BYTES)
        return ChunkedLayout(store or _opened(url), options)
    given = _Given(config)
    match name:
        case _ if name == LOCAL_CLASS:
            directory = f"{given.required('dir')}/{FOLDER}"
            return LocalLayout(store or ObjectStore.of_directory(directory))
        case _ if name == AIVEN_CLASS:
            return ChunkedLayout(store or _aivens_store(given), _aivens_options(given))
        case _:
            raise ConfigError(CLASS_NAME, name, f"supported are {', '.join(_CLASSES)}")


class _Given:
    """The options of the class that accesses the store, which have a prefix."""

    def __init__(self, config: BrokerConfig):
        self._sources = config.sources
        self._prefix = config.remote_log_storage_manager_impl_prefix

    def text(self, name: str) -> str | None:
        return self._sources.static_value(self._prefix + name)

    def required(self, name: str) -> str:
        text = self.text(name)
        if not text:
            raise self.refused(name, "the storage class needs it")
        return text

    def number(self, name: str, check: Check) -> int:
        return _number(self._prefix + name, self.required(name), check)

    def flag(self, name: str) -> bool:
        text = (self.text(name) or "false").strip().lower()
        if text not in ("true", "false"):
            raise self.refused(name, "expected true or false")
        return text == "true"

    def names(self) -> list[str]:
        """The names that are set, without the prefix."""
        prefix = self._prefix
        return sorted(
            each.removeprefix(prefix) for each in self._sources.static if each.startswith(prefix)
        )

    def full_name(self, name: str) -> str:
        return self._prefix + name

    def refused(self, name: str, reason: str) -> ConfigError:
        return ConfigError(self._prefix + name, self.text(name), reason)


def _aivens_options(given: _Given) -> ChunkOptions:
    for name in given.names():
        if name in _AIVENS:
            continue
        if name.startswith(_STORAGE) and name not in _AIVENS_TUNING:
            # Objects might go elsewhere without it, or under other credentials.
            # Its value may be a secret.
            raise ConfigError(given.full_name(name), "[hidden]", "this option is not supported")
        logger.warning("%s has no effect", given.full_name(name))
    if given.flag("encryption.enabled"):
        raise given.refused("encryption.enabled", "encrypted segments are not supported")
    return ChunkOptions(
        chunk_bytes=given.number("chunk.size", between(1, _LARGEST_CHUNK_BYTES)),
        key_prefix=given.text("key.prefix") or "",
        compresses=given.flag("compression.enabled"),
        spares_compressed=given.flag("compression.heuristic.enabled"),
    )


def _aivens_store(given: _Given) -> Store:
    name = "storage.backend.class"
    kind = given.required(name).rpartition(".")[2]
    if kind == "FileSystemStorage":
        return ObjectStore.of_directory(given.required("storage.root"))
    if kind == "S3Storage":
        settings = {
            "region": given.text("storage.s3.region"),
            "endpoint": given.text("storage.s3.endpoint.url"),
            "access_key_id": given.text("storage.aws.access.key.id"),
            "secret_access_key": given.text("storage.aws.secret.access.key"),
        }
        options: dict[str, Any] = {key: text for key, text in settings.items() if text}
        if given.flag("storage.s3.path.style.access.enabled"):
            options["virtual_hosted_style_request"] = False
        bucket = given.required("storage.s3.bucket.name")
        return _opened(f"s3://{bucket}", **options)
    if kind == "GcsStorage":
        return _opened(f"gs://{given.required('storage.gcs.bucket.name')}")
    if kind == "AzureBlobStorage":
        return _opened(f"az://{given.required('storage.azure.container.name')}")
    raise given.refused(name, "no such storage is known")


def _opened(url: str, **options: Any) -> Store:
    """The store of a URL. Raises KafkaError(INVALID_CONFIG) if it refuses all requests.

    Without an answer the broker starts all the same: it has local data to serve.
    """
    try:
        ObjectStore.check_url(url, **options)
    except StoreError as error:
        logger.warning("The object store %s fails for now: %s", url, error)
    return ObjectStore.of_url(url, **options)


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

        def number(name: str, default: int, check: Check) -> int:
            text = config.sources.static_value(prefix + name)
            return default if text is None else _number(prefix + name, text, check)

        return cls(
            partitions=number("num.partitions", _PARTITIONS, at_least(1)),
            replication_factor=number("replication.factor", 0, at_least(1)) or None,
            retention_ms=number("retention.ms", _FOREVER_MS, _check_retention),
            min_insync_replicas=number("min.isr", _MIN_INSYNC, at_least(1)),
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


def _number(name: str, text: str, check: Check) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ConfigError(name, text, "not a number") from None
    check(name, number)
    return number


def _check_retention(name: str, value: Any) -> None:
    if value != _FOREVER_MS and value <= 0:
        raise ConfigError(name, value, f"expected {_FOREVER_MS}, or a number of ms above 0")
