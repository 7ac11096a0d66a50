"""Options of `wirekafka serve` that set Kafka's options, and checks for contradictions."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    CONSOLE_CHANGES,
    CONSOLE_CLIENT,
    CONSOLE_LISTENER,
    METRICS_LISTENER,
    MIRROR,
    MIRROR_CLIENT,
    MIRROR_CONFIGS,
    MIRROR_FROM,
    MIRROR_GROUPS,
    MIRROR_ONCE,
    MIRROR_RATE,
    MIRROR_TOPICS,
    NEW_DIRECTORIES,
    SCHEMA_REGISTRY_CLIENT,
    SCHEMA_REGISTRY_LISTENER,
    TABLES,
    TIER,
)
from wirekafka.config.sources import BUILT_IN, Setting, Sources

_LISTENER, _SECURE_LISTENER = "PLAINTEXT", "SASL_SSL"
_OTHER_NAMES = {"log.dirs": ("log.dirs", "log.dir")}
"""Options that a shortcut replaces beside the option that it sets."""


def given(arguments: argparse.Namespace) -> dict[str, Setting]:
    """The settings of a command line by Kafka's names. Raises ConfigError for contradictions.

    An option that silently overruled another source's listener, for instance, would leave out the
    security that is configured there.
    """
    single = {**_pairs(arguments.set, "--set"), **_pairs(arguments.node_set, "--brokers")}
    shortcuts = _shortcuts(arguments)
    others = Sources.of(single, os.environ, arguments.config).static
    for name, setting in shortcuts.items():
        for other_name in _OTHER_NAMES.get(name, (name,)):
            _refuse_contradiction(name, setting, other_name, others)
    return {**single, **shortcuts}


def _shortcuts(arguments: argparse.Namespace) -> dict[str, Setting]:
    listener = _SECURE_LISTENER if arguments.secure else _LISTENER
    listeners = [text if "://" in text else f"{listener}://{text}" for text in arguments.listen]
    texts = {
        ("log.dirs", "--data"): arguments.data,
        ("listeners", "--listen"): ",".join(listeners) or None,
        (METRICS_LISTENER, "--metrics"): arguments.metrics,
        (CONSOLE_LISTENER, "--console"): arguments.console,
        (CONSOLE_CLIENT, "--console-config"): arguments.console_config,
        (CONSOLE_CHANGES, "--allow-changes"): "true" if arguments.allow_changes else None,
        (SCHEMA_REGISTRY_LISTENER, "--schema-registry"): arguments.schema_registry,
        (SCHEMA_REGISTRY_CLIENT, "--schema-registry-config"): arguments.schema_registry_config,
        (NEW_DIRECTORIES, "--new-directory"): ",".join(arguments.new_directory) or None,
        (TIER, "--tier"): arguments.tier,
        (TABLES, "--tables"): arguments.tables,
        (MIRROR, "--mirror"): arguments.mirror,
        (MIRROR_TOPICS, "--mirror-topics"): arguments.mirror_topics,
        (MIRROR_CLIENT, "--mirror-config"): arguments.mirror_config,
        (MIRROR_FROM, "--mirror-from"): arguments.mirror_from,
        (MIRROR_ONCE, "--mirror-once"): "true" if arguments.mirror_once else None,
        (MIRROR_RATE, "--mirror-rate"): arguments.mirror_rate,
        (MIRROR_GROUPS, "--mirror-groups"): arguments.mirror_groups,
        (MIRROR_CONFIGS, "--mirror-configs"): "true" if arguments.mirror_configs else None,
        ("remote.log.storage.system.enable", "--tier"): "true" if arguments.tier else None,
    }
    return {
        name: Setting(text, option) for (name, option), text in texts.items() if text is not None
    }


def _refuse_contradiction(
    name: str, setting: Setting, other_name: str, others: Mapping[str, Setting]
) -> None:
    other = others.get(other_name)
    if other is None or other.source == BUILT_IN or other.text.strip() == setting.text:
        return
    reason = (
        f"{setting.source} sets {name}={setting.text}, and {other.source} sets"
        f" {other_name}={other.text}: leave out one of them"
    )
    raise ConfigError(name, setting.text, reason, reason)


def _pairs(texts: list[str], source: str) -> dict[str, Setting]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            expected = "expected KEY=VALUE"
            raise ConfigError(source, text, expected, f"{source} {text}: {expected}")
        settings[key.strip()] = Setting(value.strip(), source)
    return settings
