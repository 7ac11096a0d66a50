"""The broker options and the group options of streams groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.config.checks.java_classes import STREAMS_ASSIGNORS, short_names
from wirekafka.coordinator.topics import CoordinatedTopics

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

_STANDBY_REPLICAS = "num.standby.replicas"
_RACK_TAGS = "rack.aware.assignment.tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupOptions:
    """The options that each group may override (KIP-1071), with Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    standby_replicas: int = 0
    rack_tags: tuple[str, ...] = ()
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    assignment_configs: Mapping[str, str] = field(init=False)
    """The options that the assignment depends on, as the group's record stores them."""

    @classmethod
    def of_kafka(cls, group_id: str) -> StreamsGroupOptions:
        """Return the defaults, for any group."""
        return _DEFAULTS

    @classmethod
    def of(cls, config: BrokerConfig, overrides: Mapping[str, str]) -> StreamsGroupOptions:
        """Return the options of a group with these overrides on a broker with this config."""

        def number(name: str, default: int) -> int:
            return int(overrides.get(f"streams.{name}", default))

        tags = overrides.get(f"streams.{_RACK_TAGS}")
        return cls(
            session_timeout_ms=number(
                "session.timeout.ms", config.group_streams_session_timeout_ms
            ),
            heartbeat_interval_ms=number(
                "heartbeat.interval.ms", config.group_streams_heartbeat_interval_ms
            ),
            assignment_interval_ms=number(
                "assignment.interval.ms", config.group_streams_assignment_interval_ms
            ),
            initial_rebalance_delay_ms=number(
                "initial.rebalance.delay.ms", config.group_streams_initial_rebalance_delay_ms
            ),
            standby_replicas=number(_STANDBY_REPLICAS, config.group_streams_num_standby_replicas),
            rack_tags=tuple(config.group_streams_rack_aware_assignment_tags)
            if tags is None
            else tuple(tag.strip() for tag in tags.split(",") if tag.strip()),
            task_offset_interval_ms=number(
                "task.offset.interval.ms", config.group_streams_task_offset_interval_ms
            ),
            acceptable_recovery_lag=number(
                "acceptable.recovery.lag", config.group_streams_acceptable_recovery_lag
            ),
        )

    def __post_init__(self) -> None:
        """Compute once the values that every heartbeat compares."""
        configs = {_STANDBY_REPLICAS: str(self.standby_replicas)}
        if self.rack_tags:
            configs[_RACK_TAGS] = ",".join(self.rack_tags)
        object.__setattr__(self, "assignment_configs", configs)


def standby_replicas(configs: Mapping[str, str]) -> int:
    """Return the number of standby copies in stored options."""
    return int(configs.get(_STANDBY_REPLICAS, 0))


_DEFAULTS = StreamsGroupOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupConfig:
    """The broker options of streams groups, with Kafka's defaults."""

    assignors: tuple[str, ...] = ("sticky",)
    max_size: int = 2**31 - 1

    @classmethod
    def of(cls, config: BrokerConfig) -> StreamsGroupConfig:
        """Return the part of a broker's configuration that streams groups use."""
        return cls(
            assignors=short_names(
                "group.streams.assignors", config.group_streams_assignors, STREAMS_ASSIGNORS
            ),
            max_size=config.group_streams_max_size,
        )


class StreamsGroupContext(NamedTuple):
    """The broker state that streams groups depend on: options and topics."""

    config: StreamsGroupConfig
    topics: CoordinatedTopics
    options: Callable[[str], StreamsGroupOptions]
    """Return the options of a group by its id."""
    held: Collection[str] = frozenset()
    """The ids of groups for which no assignment is computed; only tests name any."""
