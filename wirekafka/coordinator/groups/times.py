"""The times that each consumer group and each share group may override (KIP-848, KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


class GroupTimes(NamedTuple):
    """Timeouts and intervals of one group, in ms, with Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000

    def overridden(self, overrides: Mapping[str, str], group_type: str) -> GroupTimes:
        """Return these times with a group's own times, such as `share.session.timeout.ms`."""
        if not overrides:
            return self
        return GroupTimes(
            *(
                int(overrides.get(f"{group_type}.{name.replace('_', '.')}", default))
                for name, default in zip(self._fields, self, strict=True)
            )
        )


_KAFKAS = GroupTimes()


def default_times(group_id: str) -> GroupTimes:
    """Return Kafka's defaults, for any group."""
    return _KAFKAS


def consumer_group_times(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupTimes:
    """Return the times of a consumer group with these overrides on a broker with this config."""
    return GroupTimes(
        config.group_consumer_session_timeout_ms,
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_assignment_interval_ms,
    ).overridden(overrides, "consumer")


def share_group_times(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupTimes:
    """Return the times of a share group with these overrides on a broker with this config."""
    return GroupTimes(
        config.group_share_session_timeout_ms,
        config.group_share_heartbeat_interval_ms,
        config.group_share_assignment_interval_ms,
    ).overridden(overrides, "share")
