"""The schema registry as one visitor may use it: with the visitor's own user and password."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from wirekafka.config.client_config import ClientConfig
from wirekafka.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import SchemaRegistry

URL = "schema.registry.url"
_PREFIX = "schema.registry."
_TIMEOUT = "schema.registry.request.timeout.ms"
_TIMEOUT_MS = "5000"
"""Pages wait for the registry."""
_KEPT_CHARACTERS = 1 << 20
"""Of schemas, for each of 50 visitors who have logged in."""
_USER_SOURCE = "basic.auth.credentials.source"
_USER = "basic.auth.user.info"


def registry_of(
    settings: ConsoleSettings, user: str = "", password: str = ""
) -> SchemaRegistry | None:
    """A client of the registry; None if the console has none. Raises CliError, ConfigError.

    `user` is the visitor where visitors log in: no other user of the configuration is used then.
    Else it is the user that the configuration names for registries, or for brokers. Nothing of
    registries is imported where there is none.
    """
    if settings.schema_registry is None:
        return None
    from wirekafka.client import registry_settings

    values = {} if settings.config is None else _values(settings.config)
    values = {_TIMEOUT: _TIMEOUT_MS, **_authorities(values), **values}
    if user:
        values[_PREFIX + _USER_SOURCE] = "USER_INFO"
        values[_PREFIX + _USER] = f"{user}:{password}"
    elif _inherits(settings.config, values):
        values[_PREFIX + _USER_SOURCE] = "SASL_INHERIT"
    config = ClientConfig(values, "the console")
    certificate = settings.registry_certificate
    tls = None if certificate is None else _pinned(certificate)
    return registry_settings.registry_of(config, settings.schema_registry, tls, _KEPT_CHARACTERS)


def _values(config: ClientConfig) -> dict[str, str]:
    names = config.sources.names()
    return {name: text for name in names if (text := config.sources.text(name)) is not None}


def _pinned(certificate: Path) -> ssl.SSLContext:
    """Trust in one certificate, by whatever name its owner is reached."""
    context = ssl.create_default_context(cafile=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context


def _authorities(values: dict[str, str]) -> dict[str, str]:
    """The options of TLS with brokers, for the registry too unless it has its own."""
    prefix = f"{_PREFIX}ssl."
    if any(name.startswith(prefix) for name in values):
        return {}
    found = {name: text for name, text in values.items() if name.startswith("ssl.truststore.")}
    return {_PREFIX + name: text for name, text in found.items()}


def _inherits(config: ClientConfig | None, values: dict[str, str]) -> bool:
    """Whether the user of the brokers is the only user that the configuration has."""
    if config is None or not config.logs_in:
        return False
    if any(name.removeprefix(_PREFIX) in (_USER_SOURCE, _USER) for name in values):
        return False
    from wirekafka.security import jaas

    try:
        options = jaas.parse(values.get("sasl.jaas.config", "")).options
    except jaas.JaasError:
        return False  # The connections to the brokers report it.
    return {"username", "password"} <= options.keys()
