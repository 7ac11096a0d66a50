"""The effective configuration of one topic, parsed once and cheap to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from wirekafka.config.option import ConfigError, Option
from wirekafka.config.options import TOPIC, BrokerOptions
from wirekafka.config.options.topic import TopicOptions as T
from wirekafka.config.options.topic import scale
from wirekafka.errors import Error, KafkaError

_FOREVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Kafka's topic options by snake_case name; without arguments it has Kafka's defaults."""

    cleanup_policy: tuple[str, ...] = T.cleanup_policy.default
    compression_gzip_level: int = T.compression_gzip_level.default
    compression_lz4_level: int = T.compression_lz4_level.default
    compression_type: str = T.compression_type.default
    compression_zstd_level: int = T.compression_zstd_level.default
    delete_retention_ms: int = T.delete_retention_ms.default
    errors_deadletterqueue_group_enable: bool = False
    file_delete_delay_ms: int = T.file_delete_delay_ms.default
    flush_messages: int = T.flush_messages.default
    flush_ms: int = T.flush_ms.default
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = T.index_interval_bytes.default
    internal_segment_bytes: int | None = None
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = T.local_retention_bytes.default
    local_retention_ms: int = T.local_retention_ms.default
    max_compaction_lag_ms: int = T.max_compaction_lag_ms.default
    max_decompressed_message_bytes: int = T.max_decompressed_message_bytes.default
    max_message_bytes: int = T.max_message_bytes.default
    message_timestamp_after_max_ms: int = T.message_timestamp_after_max_ms.default
    message_timestamp_before_max_ms: int = T.message_timestamp_before_max_ms.default
    message_timestamp_type: str = T.message_timestamp_type.default
    min_cleanable_dirty_ratio: float = T.min_cleanable_dirty_ratio.default
    min_compaction_lag_ms: int = T.min_compaction_lag_ms.default
    min_insync_replicas: int = T.min_insync_replicas.default
    preallocate: bool = T.preallocate.default
    remote_copy_lag_bytes: int = T.remote_copy_lag_bytes.default
    remote_copy_lag_ms: int = T.remote_copy_lag_ms.default
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = T.retention_bytes.default
    retention_ms: int = T.retention_ms.default
    segment_bytes: int = T.segment_bytes.default
    segment_index_bytes: int = T.segment_index_bytes.default
    segment_jitter_ms: int = T.segment_jitter_ms.default
    segment_ms: int = T.segment_ms.default
    unclean_leader_election_enable: bool = T.unclean_leader_election_enable.default

    stores_as_sent: bool = field(init=False, repr=False, compare=False)
    """Whether the log stores batches unchanged, whatever keys and past timestamps they have."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "stores_as_sent",
            (
                self.compression_type == "producer"
                and not self.is_compacted
                and not self.is_stamped_on_append
                and self.message_timestamp_before_max_ms == _FOREVER_MS
            ),
        )

    @classmethod
    def of_broker(cls, options: BrokerOptions) -> Self:
        """The configuration of topics without overrides: the broker's value of each option."""
        return cls(**{option.attribute: inherited(options, option) for option in TOPIC.values()})

    def overridden(self, overrides: Mapping[str, str]) -> Self:
        """This configuration with a topic's overrides; itself if there are none.

        Unknown names are ignored: a newer Kafka may have written them.
        Raises ConfigError for a value that its option does not accept.
        """
        if not overrides:
            return self
        known: dict[str, Any] = {
            TOPIC[name].attribute: TOPIC[name].parse(text)
            for name, text in overrides.items()
            if name in TOPIC
        }
        # The internal option exists to go below segment.bytes' bound, so it wins.
        if known.get("internal_segment_bytes") is not None:
            known["segment_bytes"] = known["internal_segment_bytes"]
        return replace(self, **known)

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps the latest record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes whole old segments."""
        return "delete" in self.cleanup_policy

    @property
    def is_stamped_on_append(self) -> bool:
        """Whether batches get the broker's time, not the producer's."""
        return self.message_timestamp_type == "LogAppendTime"


def inherited(broker: BrokerOptions, option: Option[Any]) -> Any:
    """The broker's value of a topic or group option: the first one set in its chain."""
    if not option.chain:
        return option.default
    for follower in option.chain:
        value = getattr(broker, follower.attribute)
        if value is not None:
            return _scaled(value, scale(follower), option)
    return option.default


def _scaled(value: Any, unit: int, option: Option[Any]) -> Any:
    # Kafka takes any negative retention for unlimited, in whatever unit.
    if option.name == "retention.ms" and value < 0:
        return -1
    return value * unit if unit != 1 else value


def validate_topic_config(name: str, value: str) -> None:
    """Check a topic option. Raises KafkaError(INVALID_CONFIG), with Kafka's message."""
    option = TOPIC.get(name)
    if option is None:
        raise KafkaError(Error.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        option.parse(value)
    except ConfigError as error:
        raise KafkaError(Error.INVALID_CONFIG, str(error)) from None


assert [each.name for each in fields(TopicConfig) if each.init] == [
    option.attribute for option in TOPIC.values()
]
