"""The broker options of groups of all kinds, and of classic groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wirekafka.codec.compression import Codec

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

_MS_PER_MINUTE = 60_000
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * _MS_PER_MINUTE
"""The session timeout of a member that has not received its id yet and cannot send heartbeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The broker options of groups, with Kafka's defaults.

    The default of the initial rebalance delay comes from Kafka's server.properties.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 0
    offset_metadata_max_length: int = 4096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_ms: int = 10080 * _MS_PER_MINUTE
    offsets_retention_check_interval_ms: int = 600_000
    compression: Codec = Codec.NONE
    append_linger_ms: int = 0
    """How long in ms records wait to share an append with later records; 0 and below: not at
    all."""

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupConfig:
        """Return the part of a broker's configuration that groups use."""
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            offset_metadata_max_length=config.offset_metadata_max_bytes,
            offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
            offsets_retention_ms=config.offsets_retention_minutes * _MS_PER_MINUTE,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            append_linger_ms=config.group_coordinator_append_linger_ms,
            compression=Codec(config.offsets_topic_compression_codec),
        )
