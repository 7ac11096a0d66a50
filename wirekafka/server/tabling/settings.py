"""The broker's settings of tables: checked at the start, then sent to the worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.controllers import addresses
from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    TABLES,
    TABLES_CATALOG,
    TABLES_CATALOG_NAME,
    TABLES_NAMESPACE,
    TABLES_RATE,
    RegistryAccess,
    tables_url,
    tier_url,
)
from wirekafka.config.table_place import CATALOG_FILE, NOT_IN_URIS, OF_CATALOGS

_NAMESPACE, _CATALOG = "redpanda", "wirekafka"
_CATALOG_FILE = "wirekafka-tables.db"
_FILE = "file"
_STORES = ("s3", "gs", "az")
_EXPECTED = "expected a directory, or file:///DIR, s3://BUCKET/PREFIX, gs://BUCKET, az://CONTAINER"
_URI = f"{TABLES_CATALOG}uri"
_PACKAGES = ("pyiceberg", "pyarrow", "sqlalchemy")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablingSettings:
    """Where the tables of a broker's topics are, and how they are reached."""

    url: str
    """Of the tables' directory, as file:///DIR, or of an object store."""
    namespace: str
    catalog: Mapping[str, str]
    """The properties of the catalog; `name` is its name."""
    directories: tuple[str, ...]
    """The broker's log directories."""
    tier: str | None
    rate_bytes: int

    @property
    def may_have_tables(self) -> bool:
        """Whether the catalog may have tables: False only if its file is not there."""
        if urlsplit(self.url).scheme != _FILE or self.catalog.keys() & set(OF_CATALOGS):
            return True
        return Path(unquote(urlsplit(self.url).path), CATALOG_FILE).exists()

    @classmethod
    def of(cls, config: BrokerConfig) -> TablingSettings | None:
        """The configured settings; None if there are no tables. Raises ConfigError."""
        sources = config.sources
        given = tables_url(sources)
        if given is None:
            return None
        if missing := [name for name in _PACKAGES if find_spec(name) is None]:
            reason = f"tables need `pip install 'wirekafka[iceberg]'`: there is no {missing[0]}"
            raise _refused(given, reason)
        url = _checked_url(given)
        properties = {
            name.removeprefix(TABLES_CATALOG): sources.static_value(name) or ""
            for name in sorted(sources.names())
            if name.startswith(TABLES_CATALOG) and name != TABLES_CATALOG_NAME
        }
        if urlsplit(url).scheme == _FILE:
            _prepare_directory(Path(unquote(urlsplit(url).path)), config.data_directories)
        elif not properties.keys() & set(OF_CATALOGS):
            properties["uri"] = f"sqlite:///{_catalog_file(config)}"
        name = (sources.static_value(TABLES_CATALOG_NAME) or "").strip() or _CATALOG
        return cls(
            url=url,
            namespace=_namespace((sources.static_value(TABLES_NAMESPACE) or "").strip()),
            catalog={**properties, "name": name},
            directories=tuple(os.path.abspath(path) for path in config.data_directories),
            tier=tier_url(sources),
            rate_bytes=_rate_bytes(sources.static_value(TABLES_RATE)),
        )

    def first_line(self, node_id: int, registry: RegistryAccess | None) -> dict[str, Any]:
        """What the worker is sent at first."""
        return {
            "node": node_id,
            "url": self.url,
            "namespace": self.namespace,
            "catalog": dict(self.catalog),
            "directories": list(self.directories),
            "tier": self.tier,
            "rate_bytes": self.rate_bytes,
            "registry": None if registry is None else _encoded(registry),
        }


def _checked_url(given: str) -> str:
    """The URL of a directory or an object store; a plain path is made absolute."""
    parts = urlsplit(given)
    if not parts.scheme:
        return Path(given).absolute().as_uri()
    if parts.query or parts.fragment or parts.scheme not in (_FILE, *_STORES):
        raise _refused(given, _EXPECTED)
    if parts.scheme == _FILE:
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise _refused(given, "file URLs have three slashes: file:///DIR")
        return Path(unquote(parts.path)).as_uri()
    if "@" in parts.netloc:
        raise _refused("[hidden]", "credentials belong to the catalog's properties")
    if not parts.netloc:
        raise _refused(given, _EXPECTED)
    return given.rstrip("/")


def _prepare_directory(path: Path, log_directories: tuple[str, ...]) -> None:
    """Create the directory of tables. Raises ConfigError if it cannot be used."""
    for each in log_directories:
        log_directory = Path(each).absolute()
        if path == log_directory or log_directory in path.parents:
            reason = f"it is in the log directory {each}, which may have logs of partitions only"
            raise _refused(str(path), reason)
    if wrong := sorted(set(NOT_IN_URIS) & set(str(path))):
        raise _refused(str(path), f"a path with {' '.join(wrong)} is not one URI for all readers")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(str(path), f"it cannot be created: {error.strerror or error}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise _refused(str(path), "it cannot be written to")


def catalog_beside(data: Path, config: BrokerConfig) -> dict[str, str]:
    """The setting by which brokers of one machine have one catalog; none if they have one anyway.

    `data` is the parent of their directories.
    """
    scheme = urlsplit(tables_url(config.sources) or "").scheme
    is_set = any(f"{TABLES_CATALOG}{name}" in config.sources.static for name in OF_CATALOGS)
    if is_set or scheme not in _STORES:
        return {}
    return {_URI: f"sqlite:///{data / _CATALOG_FILE}"}


def _catalog_file(config: BrokerConfig) -> Path:
    """The file of the catalog of tables in an object store.

    Raises ConfigError for a broker beside others, whose tables would be in another catalog.
    """
    if not config.has_own_controller or len(addresses(config)) > 1:
        reason = f"the brokers of a cluster need one catalog for tables in an object store: {_URI}"
        raise ConfigError(_URI, None, reason, reason)
    return Path(config.data_directories[0]).absolute() / _CATALOG_FILE


def _namespace(text: str) -> str:
    if not text.replace("_", "").replace("-", "").isalnum() and text:
        reason = "expected letters, digits, - and _: namespaces have one level"
        raise ConfigError(TABLES_NAMESPACE, text, reason)
    return text or _NAMESPACE


def _rate_bytes(text: str | None) -> int:
    trimmed = (text or "0").strip()
    if not (trimmed.isascii() and trimmed.isdigit() and len(trimmed) < 19):
        raise ConfigError(TABLES_RATE, trimmed, "expected a number of bytes, or 0 for no limit")
    return int(trimmed)


def _encoded(registry: RegistryAccess) -> dict[str, Any]:
    return {
        "url": registry.url,
        "user": registry.user,
        "password": registry.password,
        "certificate": None if registry.certificate is None else str(registry.certificate),
        **({"ssl": dict(registry.ssl)} if registry.ssl else {}),
    }


def _refused(value: str, reason: str) -> ConfigError:
    return ConfigError(TABLES, value, reason)
