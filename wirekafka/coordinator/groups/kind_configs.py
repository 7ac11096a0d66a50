"""The broker options of the kinds of groups whose assignments the broker computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wirekafka.coordinator.groups.consumer.config import ConsumerGroupConfig
from wirekafka.coordinator.groups.share.config import ShareGroupConfig
from wirekafka.coordinator.groups.streams.config import StreamsGroupConfig

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class KindConfigs:
    """The broker options of each of these kinds, with Kafka's defaults."""

    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    share: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)

    @classmethod
    def of(cls, config: BrokerConfig) -> KindConfigs:
        """Return the part of a broker's configuration that these kinds use."""
        return cls(
            consumer=ConsumerGroupConfig.of(config),
            share=ShareGroupConfig.of(config),
            streams=StreamsGroupConfig.of(config),
        )
