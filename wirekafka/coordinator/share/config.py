"""The broker options and the group options of share groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.coordinator.consumer.topics import CoordinatedTopics

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


class ShareGroupOptions(NamedTuple):
    """The options that each group may override."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000

    @classmethod
    def of_kafka(cls, group_id: str) -> ShareGroupOptions:
        """Return Kafka's defaults, for any group."""
        return _KAFKAS

    @classmethod
    def of(cls, config: BrokerConfig, overrides: Mapping[str, str]) -> ShareGroupOptions:
        """Return the options of a group with these overrides on a broker with this config."""
        defaults = cls(
            config.group_share_session_timeout_ms,
            config.group_share_heartbeat_interval_ms,
            config.group_share_assignment_interval_ms,
        )
        if not overrides:
            return defaults
        return cls(
            *(
                int(overrides.get(name, default))
                for name, default in zip(_GROUP_OPTIONS, defaults, strict=True)
            )
        )


_KAFKAS = ShareGroupOptions()
_GROUP_OPTIONS = (
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.assignment.interval.ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupConfig:
    """The broker options of share groups, with Kafka's defaults."""

    max_size: int = 200
    initialize_retry_interval_ms: int = 30_000

    @classmethod
    def of(cls, config: BrokerConfig) -> ShareGroupConfig:
        """Return the part of a broker's configuration that share groups use."""
        return cls(
            max_size=config.group_share_max_size,
            initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        )


class ShareGroupContext(NamedTuple):
    """The broker state that share groups depend on: options and topics."""

    config: ShareGroupConfig
    topics: CoordinatedTopics
    options: Callable[[str], ShareGroupOptions]
    """Return the options of a group by its id."""
    held: Collection[str] = frozenset()
    """The ids of groups for which no assignment is computed; only tests name any."""
