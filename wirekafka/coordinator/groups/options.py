"""The options of single groups: a group's own settings above the broker's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from wirekafka.config.checks.group_bounds import clamped
from wirekafka.coordinator.groups.streams.config import StreamsGroupOptions
from wirekafka.coordinator.groups.times import consumer_group_times, share_group_times

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

T = TypeVar("T")

_BrokerConfig = Callable[[], "BrokerConfig"]
_OwnConfig = Callable[[str], Mapping[str, str]]


class GroupSettings:
    """Reads the current options of a group, by its kind.

    `own_config` returns the settings of a group, as IncrementalAlterConfigs stored them.
    """

    def __init__(self, broker_config: _BrokerConfig, own_config: _OwnConfig):
        self.consumer = _Options(consumer_group_times, broker_config, own_config)
        self.share = _Options(share_group_times, broker_config, own_config)
        self.streams = _Options(StreamsGroupOptions.of, broker_config, own_config)


class _Options(Generic[T]):
    """The options of groups of one kind, kept until a setting changes: heartbeats read them."""

    def __init__(
        self,
        of: Callable[[BrokerConfig, Mapping[str, str]], T],
        broker_config: _BrokerConfig,
        own_config: _OwnConfig,
    ):
        self._of = of
        self._broker_config = broker_config
        self._own_config = own_config
        self._config = broker_config()
        self._brokers = of(self._config, {})
        self._known: dict[str, tuple[Mapping[str, str], T]] = {}
        """By group, its own settings and the options that they result in."""

    def __call__(self, group_id: str) -> T:
        config = self._broker_config()
        if config is not self._config:
            self._config = config
            self._brokers = self._of(config, {})
            self._known.clear()
        own = self._own_config(group_id)
        if not own:
            return self._brokers
        known = self._known.get(group_id)
        if known is not None and known[0] == own:
            return known[1]
        options = self._of(config, clamped(config, own))
        self._known[group_id] = dict(own), options
        return options
