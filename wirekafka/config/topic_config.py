"""The effective configuration of one topic, parsed once and cheap to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from wirekafka.config.option import ConfigError, Option
from wirekafka.config.options import TOPIC, BrokerOptions
from wirekafka.config.options.topic import TopicOptions, scale
from wirekafka.config.table_mode import TableKind
from wirekafka.errors import Error, KafkaError

MIRROR_SOURCE = TOPIC["wirekafka.mirror.source"].name
MIRROR_PROMOTED = TOPIC["wirekafka.mirror.promoted"].name
_FOREVER_MS = (1 << 63) - 1
_DEFAULTS = {option.attribute: option.default for option in TOPIC.values()}


class TopicConfig(TopicOptions):
    """Kafka's topic options by snake_case name; without arguments it has Kafka's defaults.

    Immutable. Each row of `TopicOptions` is a slot, which reads as fast as any attribute.
    """

    __slots__ = (*_DEFAULTS, "stores_as_sent", "validates_schemas")

    stores_as_sent: bool
    """Whether the log stores batches unchanged, whatever keys and past timestamps they have."""
    validates_schemas: bool
    """Whether clients' records must name schemas that are registered for the topic."""

    def __init__(self, **values: Any) -> None:
        """Take values by attribute, parsed and checked. Raises TypeError for an unknown option."""
        if unknown := values.keys() - _DEFAULTS.keys():
            raise TypeError(f"no topic options: {', '.join(sorted(unknown))}")
        for attribute, default in _DEFAULTS.items():
            object.__setattr__(self, attribute, values.get(attribute, default))
        object.__setattr__(
            self,
            "validates_schemas",
            self.confluent_key_schema_validation or self.confluent_value_schema_validation,
        )
        object.__setattr__(
            self,
            "stores_as_sent",
            (
                self.compression_type == "producer"
                and not self.is_compacted
                and not self.is_stamped_on_append
                and not self.validates_schemas
                and self.message_timestamp_before_max_ms == _FOREVER_MS
            ),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: a topic's configuration is immutable")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TopicConfig):
            return NotImplemented
        return self.values() == other.values()

    def __hash__(self) -> int:
        return hash(tuple(self.values().items()))

    def __repr__(self) -> str:
        changed = (
            f"{attribute}={value!r}"
            for attribute, value in self.values().items()
            if value != _DEFAULTS[attribute]
        )
        return f"TopicConfig({', '.join(changed)})"

    def values(self) -> dict[str, Any]:
        """The value of each option, by attribute."""
        return {attribute: getattr(self, attribute) for attribute in _DEFAULTS}

    def changed(self, **values: Any) -> Self:
        """This configuration with other values of some options, by attribute."""
        return type(self)(**self.values() | values)

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
        return self.changed(**known)

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps the latest record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def is_table(self) -> bool:
        """Whether the topic's records go to an Iceberg table too."""
        return self.wirekafka_table_mode != TableKind.OFF

    @property
    def is_mirror(self) -> bool:
        """Whether the topic is copied from another cluster, and read-only."""
        return bool(self.wirekafka_mirror_source) and not self.wirekafka_mirror_promoted

    @property
    def waits_for_table(self) -> bool:
        """Whether retention keeps records until they are in the topic's table."""
        return self.wirekafka_table_hold and self.is_table

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes whole old segments."""
        return "delete" in self.cleanup_policy

    @property
    def is_tiered(self) -> bool:
        """Whether closed segments go to remote storage; compacted topics never have any there."""
        return self.remote_storage_enable and not self.is_compacted

    @property
    def is_stamped_on_append(self) -> bool:
        """Whether batches get the broker's time, not the producer's."""
        return self.message_timestamp_type == "LogAppendTime"


def is_mirror(overrides: Mapping[str, str]) -> bool:
    """As `TopicConfig.is_mirror`, from a topic's overrides alone."""
    is_promoted = overrides.get(MIRROR_PROMOTED, "").strip().lower() == "true"
    return bool(overrides.get(MIRROR_SOURCE)) and not is_promoted


def inherited(broker: BrokerOptions, option: Option[Any]) -> Any:
    """The broker's value of a topic or group option: the first set option of its chain."""
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
