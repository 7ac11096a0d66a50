"""The file that names the clusters of a console, each with its own brokers and settings (TOML)."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wirekafka.client.client import CliError
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.table_place import TablePlace
from wirekafka.console.registry_access import URL
from wirekafka.console.settings import ConsoleSettings

_KEYS: Mapping[str, type] = {
    "bootstrap-server": str,
    "command-config": str,
    "schema-registry": str,
    "tables": str,
    "allow-changes": bool,
}
_NAME = frozenset(string.ascii_letters + string.digits + "-_.")
_MOST_CHARACTERS = 60
"""Of the name of a cluster."""


def read_clusters(file: Path, common: ConsoleSettings) -> Sequence[ConsoleSettings]:
    """The settings of each cluster, in the order of the file; `common` stands for missing keys.

    Raises CliError, and ConfigError for a file of a client's properties that it names.
    """
    try:
        tables = tomllib.loads(file.read_text())
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise CliError(f"{file} is not TOML: {error}") from None
    if not tables:
        raise CliError(f"{file} names no cluster")
    for name, values in tables.items():
        _check(file, name, values)
    names = tuple(tables)
    return [_settings(file, name, names, values, common) for name, values in tables.items()]


def _check(file: Path, name: str, values: Any) -> None:
    if not set(name) <= _NAME or not name.strip(".") or len(name) > _MOST_CHARACTERS:
        reason = f"letters, digits, '-', '_' and '.', at most {_MOST_CHARACTERS}"
        raise CliError(f"{file}: {name!r} cannot be the name of a cluster, which has {reason}")
    if not isinstance(values, dict):
        raise CliError(f"{file}: {name} is outside of a table such as [production]")
    for key, value in values.items():
        if isinstance(value, dict):
            raise CliError(f'{file}: write a name with dots in quotes, as ["{name}.{key}"]')
        if key not in _KEYS:
            raise CliError(f"{file}: {name} has {key!r}, which is none of {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            kind = "true or false" if _KEYS[key] is bool else "a text"
            raise CliError(f"{file}: {key} of {name} must be {kind}")
    if not values.get("bootstrap-server"):
        raise CliError(f"{file}: {name} has no bootstrap-server")


def _settings(
    file: Path,
    name: str,
    names: tuple[str, ...],
    values: Mapping[str, Any],
    common: ConsoleSettings,
) -> ConsoleSettings:
    config = None
    if "command-config" in values:
        config = ClientConfig.read(file.parent / values["command-config"])
    registry = values.get("schema-registry") or (config.sources.text(URL) if config else None)
    tables = TablePlace(values["tables"]) if values.get("tables") else None
    own = replace(
        common,
        bootstrap=values["bootstrap-server"],
        config=config,
        allow_changes=values.get("allow-changes", common.allow_changes),
        schema_registry=registry,
        tables=tables,
    )
    # Each cluster signs the tokens of its own sessions, and of no other's.
    return own.of_cluster(name, names)
