"""The options of single groups: a group's own settings over those of the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.config.group_bounds import clamped
from wirekafka.coordinator.consumer.config import ConsumerGroupOptions
from wirekafka.coordinator.share.config import ShareGroupOptions
from wirekafka.coordinator.streams.config import StreamsGroupOptions

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig


class GroupOptions(NamedTuple):
    """Reads the current options of a group, by its kind."""

    broker_config: Callable[[], BrokerConfig]
    own_config: Callable[[str], Mapping[str, str]]
    """Returns the settings of a group, as IncrementalAlterConfigs stored them."""

    def consumer(self, group_id: str) -> ConsumerGroupOptions:
        return ConsumerGroupOptions.of(*self._effective(group_id))

    def share(self, group_id: str) -> ShareGroupOptions:
        return ShareGroupOptions.of(*self._effective(group_id))

    def streams(self, group_id: str) -> StreamsGroupOptions:
        return StreamsGroupOptions.of(*self._effective(group_id))

    def _effective(self, group_id: str) -> tuple[BrokerConfig, Mapping[str, str]]:
        config = self.broker_config()
        return config, clamped(config, self.own_config(group_id))
