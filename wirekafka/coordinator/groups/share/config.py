"""The broker options of share groups, and the other dependencies of their machines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.topics import CoordinatedTopics

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


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
    options: Callable[[str], GroupTimes]
    """Return the times of a group by its id."""
    held: Collection[str] = frozenset()
    """The ids of groups for which no assignment is computed; only tests name any."""
