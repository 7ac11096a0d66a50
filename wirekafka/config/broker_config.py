"""A broker's configuration: typed values over the stacked sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER, BrokerOptions
from wirekafka.config.sources import Sources
from wirekafka.config.topic_config import TopicConfig, validate_topic_config

__all__ = ["BrokerConfig", "TopicConfig", "validate_topic_config"]

# Options read by whoever owns the prefix: one listener, or a storage plugin.
_PREFIXES = ("listener.name.", "rsm.config.", "rlmm.config.")


class BrokerConfig(BrokerOptions):
    """Kafka's broker options by snake_case name (`config.log_segment_bytes`), parsed and checked.

    Immutable: a dynamic update makes a new one.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        values = self.__dict__
        for name in (*sources.static, *sources.cluster, *sources.broker):
            option = BROKER.get(name)
            text = sources.text(name)
            if option is None or text is None:
                continue
            try:
                values[option.attribute] = option.parse(text)
            except ConfigError as error:
                raise ConfigError(name, error.value, error.reason,
                                  f"{error} (from {sources.source(name)})") from None
        # Two names for one thing (KIP-631): whichever is given speaks for both.
        if "broker.id" in sources.static and sources.source("node.id") == "built in":
            values["node_id"] = self.broker_id
        values["broker_id"] = self.node_id

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

    @cached_property
    def topic_defaults(self) -> TopicConfig:
        """What topics without overrides of their own run with."""
        return TopicConfig.defaults(self)

    @property
    def data_directories(self) -> tuple[str, ...]:
        """`log.dirs`, or `log.dir` where that is not set."""
        return self.log_dirs or self.log_dir
