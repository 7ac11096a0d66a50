"""The broker options of consumer groups, and the other dependencies of their machines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.config.checks.java_classes import CONSUMER_ASSIGNORS, short_names
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.coordinator.topics import CoordinatedTopics

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """The broker options of consumer groups, with Kafka's defaults.

    The first assignor is used for groups whose members choose none.
    """

    assignors: tuple[str, ...] = ("uniform", "range")
    max_size: int = 2**31 - 1
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> ConsumerGroupConfig:
        """Return the part of a broker's configuration that consumer groups use."""
        return cls(
            assignors=short_names(
                "group.consumer.assignors", config.group_consumer_assignors, CONSUMER_ASSIGNORS
            ),
            max_size=config.group_consumer_max_size,
            migration_policy=config.group_consumer_migration_policy.lower(),
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        )

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a consumer member joins."""
        return self.migration_policy in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes classic when only classic members are left."""
        return self.migration_policy in ("downgrade", "bidirectional")


class ConsumerGroupContext(NamedTuple):
    """The broker state that consumer groups depend on: options and topics."""

    config: ConsumerGroupConfig
    topics: CoordinatedTopics
    options: Callable[[str], GroupTimes]
    """Return the times of a group by its id."""
    held: Collection[str] = frozenset()
    """The ids of groups for which no assignment is computed; only tests hold any."""
