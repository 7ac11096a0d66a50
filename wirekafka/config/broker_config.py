"""A broker's configuration: typed, checked values from the configuration sources."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from wirekafka.config.option import ConfigError, Option, Type
from wirekafka.config.options import (
    BROKER,
    FAMILIES,
    BrokerOptions,
    SaslOptions,
    SecurityOptions,
    rows,
)
from wirekafka.config.own import OWN, PREFIXES
from wirekafka.config.prefixed_names import applicable, overridden, prefixes
from wirekafka.config.reference import Reference, hidden, value_of
from wirekafka.config.sources import Setting, Sources
from wirekafka.config.topic_config import TopicConfig, validate_topic_config

__all__ = ["BrokerConfig", "TopicConfig", "validate_topic_config"]

_PLUGINS = ("rsm.config.", "rlmm.config.", "config.providers.")
"""The prefixes of options of plugins: tiered storage and config providers."""

OF_THE_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")
"""Read by Kafka's authorizer, so that they are not among the options of a broker."""

_HIDDEN = {**rows(SecurityOptions), **rows(SaslOptions)}.keys()
"""Options whose values are hidden if they come from config providers. Values of other options, such
as the paths and addresses of this node, are in its log and its responses anyway."""
_MOST_SHARED = 256
_DEFAULTS = {option.attribute: option.default for option in BROKER.values()}


class BrokerConfig(BrokerOptions):
    """Kafka's broker options by snake_case name (`config.log_segment_bytes`), parsed and checked.

    Immutable: a dynamic update creates a new one.
    """

    def __init__(self, sources: Sources) -> None:
        # Defaults are stored in the instance too, where reading them is fastest.
        self.__dict__.update(_DEFAULTS)
        self.sources = sources
        overruled = _overruled(sources)
        for name in sources.names():
            option = BROKER.get(name)
            text = sources.text(name)
            if option is not None and text is not None and name not in overruled:
                self.__dict__[option.attribute] = _parsed(option, text, sources)

    @classmethod
    def of(
        cls,
        command_line: Mapping[str, str | Setting] | None = None,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> BrokerConfig:
        """Read the static sources. Raises ConfigError, which names key, value and source."""
        return cls(Sources.of(command_line, environment, file))

    def with_dynamic(
        self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """This configuration with the dynamic settings of the metadata log (KIP-226).

        Settings that cannot change at run time are ignored.
        """
        cluster = applicable(cluster_default, per_broker=False)
        broker = applicable(per_broker, per_broker=True)
        return BrokerConfig(self.sources.with_dynamic(cluster, broker))

    def with_written(
        self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """As `with_dynamic`, but without values of config providers: no file is read."""
        return BrokerConfig(self.sources.with_written(cluster_default, per_broker))

    @property
    def unknown(self) -> list[tuple[str, str]]:
        """(name, source) of static settings that are not Kafka options.

        Options of a listener or a mechanism are known; their prefix is in lower case.
        """
        return [
            (name, setting.source)
            for name, setting in self.sources.static.items()
            if name not in BROKER
            and name not in OF_THE_AUTHORIZER
            and name not in OWN
            and not name.startswith((*_PLUGINS, *PREFIXES))
            and overridden(name) is None
        ]

    def for_listener(self, name: str, mechanism: str | None = None) -> BrokerConfig:
        """The configuration as a listener sees it, and there perhaps a SASL mechanism.

        `listener.name.<name>.<mechanism>.<option>` overrules `listener.name.<name>.<option>`, which
        overrules `<option>`, no matter which settings are dynamic. The result is shared; dynamic
        updates apply to the configuration that it is made from. Raises ConfigError for a value that
        the option cannot take; the error has the name under which the option is set.
        """
        key = name.lower(), mechanism and mechanism.lower()
        found = self._of_listeners.get(key)
        if found is None:
            sources = self.sources
            for prefix in prefixes(name, mechanism):
                sources = sources.with_prefix(prefix)
            found = self._of_listeners[key] = BrokerConfig(sources)
        return found

    @cached_property
    def _of_listeners(self) -> dict[tuple[str, str | None], BrokerConfig]:
        return {}

    def with_options_of(self, other: BrokerConfig, names: Container[str]) -> BrokerConfig:
        """This configuration, with the options of these names set as in `other`."""
        return BrokerConfig(self.sources.with_options_of(other.sources, names))

    def value(self, option: Option[Any]) -> Any:
        """The option's value, None where it is not set and has no default."""
        if option.unset_reads_empty and self.sources.text(option.name) is None:
            return None
        return getattr(self, option.attribute)

    @cached_property
    def topic_defaults(self) -> TopicConfig:
        """The configuration of topics without overrides, one shared object."""
        return TopicConfig.of_broker(self)

    def is_cordoned(self, path: str) -> bool:
        """Whether a log directory gets no new replicas (KIP-1066)."""
        return "*" in self.cordoned_log_dirs or path in self.cordoned_log_dirs

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective configuration of a topic with these overrides. Raises ConfigError.

        Topics with equal overrides share one object.
        """
        if not overrides:
            return self.topic_defaults
        key = tuple(overrides.items())
        shared = self._shared_topic_configs
        config = shared.get(key)
        if config is None:
            config = self.topic_defaults.overridden(overrides)
            if len(shared) >= _MOST_SHARED:
                shared.clear()
            shared[key] = config
        return config

    @cached_property
    def _shared_topic_configs(self) -> dict[tuple[tuple[str, str], ...], TopicConfig]:
        return {}

    @property
    def data_directories(self) -> tuple[str, ...]:
        """`log.dirs`, or `log.dir` if `log.dirs` is not set."""
        return self.log_dirs or self.log_dir

    @property
    def has_own_controller(self) -> bool:
        """Whether this node is a controller too, by `process.roles`."""
        return "controller" in self.process_roles

    @property
    def metadata_topic_config(self) -> TopicConfig:
        """The configuration of the metadata log, which no topic override changes."""
        return TopicConfig(
            segment_bytes=self.internal_metadata_log_segment_bytes
            or self.metadata_log_segment_bytes,
            segment_ms=self.metadata_log_segment_ms,
            max_message_bytes=self.socket_request_max_bytes,
            file_delete_delay_ms=self.internal_metadata_delete_delay_millis,
            retention_ms=-1,
            retention_bytes=-1,
        )


def _parsed(option: Option[Any], text: str, sources: Sources) -> Any:
    name = sources.configured_name(option.name)
    try:
        return _value(option, text, name)
    except ConfigError as error:
        if sources.is_dynamic(option.name):
            # The controller, perhaps a newer version, accepted it: ignored rather than fatal.
            setting = sources.static.get(option.name)
            return _value(option, setting.text, name) if setting else option.default
        source = sources.source(option.name)
        message = f"{error} (from {source})" if source else str(error)
        raise ConfigError(name, error.value, error.reason, message) from None


def _value(option: Option[Any], text: str, name: str) -> Any:
    """The parsed value, which is hidden if it is a secret of a config provider."""
    if not isinstance(text, Reference):
        return option.parse(text, name)
    try:
        value = option.parse(value_of(text), name)
    except ConfigError:
        reason = "it refers to a value that the option cannot take"
        raise ConfigError(name, text, reason) from None
    is_secret = option.type is Type.PASSWORD or option.name in _HIDDEN
    return hidden(value) if is_secret else value


def _overruled(sources: Sources) -> set[str]:
    """Static settings to ignore because a dynamic one sets the same value in another unit."""
    dynamic = {*sources.cluster, *sources.broker}
    return {other for name in dynamic for other in FAMILIES.get(name, ())} - dynamic
