"""The broker options that steer groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wirekafka.codec.compression import Codec

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

_MS_PER_MINUTE = 60_000
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * _MS_PER_MINUTE
"""How long a member that has not been told its id is kept: nothing else shows that it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Defaults are Kafka's, but for the initial delay, which is its server.properties'."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 0
    offset_metadata_max_length: int = 4096
    offsets_retention_ms: int = 10080 * _MS_PER_MINUTE
    offsets_retention_check_interval_ms: int = 600_000
    compression: Codec = Codec.NONE

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupConfig:
        """The part of a broker's configuration that groups read."""
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            offset_metadata_max_length=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * _MS_PER_MINUTE,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            compression=Codec(config.offsets_topic_compression_codec),
        )
