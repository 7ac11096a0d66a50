"""The entries of DescribeConfigs: each option's value, its source and its synonyms."""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import Option, Update, text_of
from wirekafka.config.options import (
    BROKER,
    CLIENT_METRICS,
    FAMILIES,
    GROUP,
    THROTTLES,
    TOPIC,
    Table,
)
from wirekafka.config.own import DESCRIBED
from wirekafka.config.prefixed_names import described
from wirekafka.config.reference import Reference
from wirekafka.config.topic_config import inherited

_UNKNOWN_TYPE = 0


class ConfigSource(IntEnum):
    """The source of a value, numbered as in DescribeConfigs v1+ (KIP-226)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A name under which an option is set, its value and source; the strongest comes first."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One option of a resource as in DescribeConfigs v4; `type` 0 is "unknown"."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    sensitive: bool
    synonyms: list[Synonym]
    type: int
    documentation: str | None


def describe_topic(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every topic option, by name; internal options only where the topic itself sets them."""
    entries = [
        _layered(TOPIC[entry.name], overrides, broker, ConfigSource.TOPIC)
        if entry.name in overrides
        else entry
        for entry in _plain_topic(broker)
    ]
    internal = [option for name, option in TOPIC.items() if option.internal and name in overrides]
    entries += [_layered(option, overrides, broker, ConfigSource.TOPIC) for option in internal]
    return sorted(entries, key=_by_name) if internal else entries


def describe_group(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every option that can be set per group, by name; internal options only where set."""
    shown = _shown(GROUP, overrides)
    return [_layered(option, overrides, broker, ConfigSource.GROUP) for option in shown]


def describe_client_metrics(
    broker: BrokerConfig, overrides: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every option of a client-metrics subscription, by name."""
    return [
        _layered(option, overrides, broker, ConfigSource.CLIENT_METRICS)
        for option in _shown(CLIENT_METRICS)
    ]


def describe_broker(broker: BrokerConfig) -> list[ConfigEntry]:
    """Every broker option and every other configured name, in order; secrets are withheld.

    An internal option is listed only where it was configured.
    """
    names = {name for name, option in BROKER.items() if not option.internal}
    names.update(broker.sources.names())
    return [_broker_entry(broker, name) for name in sorted(names)]


def describe_broker_defaults(cluster: Mapping[str, str]) -> list[ConfigEntry]:
    """The cluster-wide dynamic options (the broker resource with an empty name)."""
    return [_cluster_entry(name, text) for name, text in sorted(cluster.items())]


_by_name = attrgetter("name")


@lru_cache(maxsize=2)
def _plain_topic(broker: BrokerConfig) -> list[ConfigEntry]:
    """The entries of a topic without overrides, cached as there may be thousands of these."""
    return [_layered(option, {}, broker, ConfigSource.TOPIC) for option in _shown(TOPIC)]


def _shown(table: Table, configured: Container[str] = ()) -> list[Option[Any]]:
    """The options that are not internal, or configured."""
    return [
        option
        for name, option in sorted(table.items())
        if not option.internal or name in configured
    ]


def _layered(
    option: Option[Any], overrides: Mapping[str, str], broker: BrokerConfig, own: ConfigSource
) -> ConfigEntry:
    synonyms = []
    text = overrides.get(option.name)
    if text is None:
        value = text_of(inherited(broker, option))
    else:
        value = text_of(option.parse(text))
        synonyms.append(Synonym(option.name, value, own))
    if option.chain:
        synonyms += _broker_synonyms(broker, option.chain[0].name)
    elif own is ConfigSource.GROUP:
        synonyms.append(Synonym(option.name, text_of(option.default), ConfigSource.DEFAULT))
    return ConfigEntry(
        name=option.name,
        value=value,
        read_only=False,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        sensitive=False,
        synonyms=synonyms,
        type=option.type,
        documentation=option.doc,
    )


def _broker_entry(broker: BrokerConfig, name: str) -> ConfigEntry:
    option = described(name)
    sensitive = name not in DESCRIBED if option is None else option.sensitive
    synonyms = _broker_synonyms(broker, name)
    if sensitive:
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
        value = None
    elif option and name in BROKER and not isinstance(broker.sources.text(name), Reference):
        value = text_of(broker.value(option))
    else:
        value = broker.sources.text(name)
    return ConfigEntry(
        name=name,
        value=value,
        sensitive=sensitive,
        synonyms=synonyms,
        read_only=_is_read_only(name),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=option.type if option else _UNKNOWN_TYPE,
        documentation=(option.doc or None) if option else None,
    )


def _cluster_entry(name: str, text: str) -> ConfigEntry:
    option = described(name)
    sensitive = option is None or option.sensitive
    value = None if sensitive else text
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return ConfigEntry(
        name=name,
        value=value,
        source=source,
        sensitive=sensitive,
        read_only=_is_read_only(name),
        synonyms=[Synonym(name, value, source)],
        type=option.type if option else _UNKNOWN_TYPE,
        documentation=(option.doc or None) if option else None,
    )


def _is_read_only(name: str) -> bool:
    option = BROKER.get(name) or THROTTLES.get(name)
    return option is None or option.update is Update.READ_ONLY


def _broker_synonyms(broker: BrokerConfig, name: str) -> list[Synonym]:
    """The settings under all names of an option, strongest first, from its own name on.

    Empty for an option that is set under a synonym only, as in Kafka: tools take the first entry
    for the value's source.
    """
    names = FAMILIES.get(name) or (name,)
    base = described(name)
    if base is not None and base.name != name:
        names = (name, base.name)
    found = []
    sources = broker.sources
    layers = (
        (ConfigSource.DYNAMIC_BROKER, sources.broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, sources.cluster),
    )
    for source, texts in layers:
        found += [Synonym(n, texts[n], source) for n in names if n in texts]
    found += [
        Synonym(n, sources.static[n].text, ConfigSource.STATIC_BROKER)
        for n in names
        if n in sources.static
    ]
    found += [
        Synonym(n, text_of(BROKER[n].default), ConfigSource.DEFAULT)
        for n in names
        if n in BROKER and BROKER[n].has_default
    ]
    first = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[first:]
