"""A broker's configuration: typed values over the stacked sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from wirekafka.config.option import ConfigError, Option
from wirekafka.config.options import BROKER, FAMILIES, BrokerOptions
from wirekafka.config.sources import Sources
from wirekafka.config.topic_config import TopicConfig, validate_topic_config

__all__ = ["BrokerConfig", "TopicConfig", "validate_topic_config"]

# Options read by whoever owns the prefix: one listener, or a storage plugin.
_PREFIXES = ("listener.name.", "rsm.config.", "rlmm.config.")

_DEFAULTS = {option.attribute: option.default for option in BROKER.values()}


class BrokerConfig(BrokerOptions):
    """Kafka's broker options by snake_case name (`config.log_segment_bytes`), parsed and checked.

    Immutable: a dynamic update makes a new one.
    """

    def __init__(self, sources: Sources) -> None:
        # Defaults too lie in the instance, where reading one costs as little as any attribute.
        self.__dict__.update(_DEFAULTS)
        self.sources = sources
        overruled = _overruled(sources)
        for name in sources.names():
            option, text = BROKER.get(name), sources.text(name)
            if option is not None and text is not None and name not in overruled:
                self.__dict__[option.attribute] = _parsed(option, text, sources)

    @classmethod
    def of(
        cls,
        command_line: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> BrokerConfig:
        """From the sources a process starts with; ConfigError names key, value and source."""
        return cls(Sources.of(command_line, environment, file))

    def with_dynamic(
        self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """This configuration under the dynamic settings of the metadata log."""
        return BrokerConfig(self.sources.with_dynamic(cluster_default, per_broker))

    @property
    def unknown(self) -> list[tuple[str, str]]:
        """(name, source) of settings that are no Kafka option; worth a warning each."""
        return [
            (name, setting.source) for name, setting in self.sources.static.items()
            if name not in BROKER and not name.startswith(_PREFIXES)
        ]

    def value(self, option: Option[Any]) -> Any:
        """The option's value, None where nobody set it and it has no default."""
        if option.unset_reads_empty and self.sources.text(option.name) is None:
            return None
        return getattr(self, option.attribute)

    @cached_property
    def topic_defaults(self) -> TopicConfig:
        """What topics without overrides of their own run with."""
        return TopicConfig.defaults(self)

    @property
    def data_directories(self) -> tuple[str, ...]:
        """`log.dirs`, or `log.dir` where that is not set."""
        return self.log_dirs or self.log_dir


def _parsed(option: Option[Any], text: str, sources: Sources) -> Any:
    try:
        return option.parse(text)
    except ConfigError as error:
        if sources.is_dynamic(option.name):
            # The controller checked it, maybe a newer one: better to run on than to stop.
            setting = sources.static.get(option.name)
            return option.parse(setting.text) if setting else option.default
        message = f"{error} (from {sources.source(option.name)})"
        raise ConfigError(option.name, error.value, error.reason, message) from None


def _overruled(sources: Sources) -> set[str]:
    """Static names to pass over because a dynamic setting says the same in another unit."""
    dynamic = {*sources.cluster, *sources.broker}
    return {other for name in dynamic for other in FAMILIES.get(name, ())} - dynamic
