"""Configurations of clients that log in by a name and a password."""

from __future__ import annotations

from wirekafka.client.client import CliError
from wirekafka.config.client_config import ClientConfig

MECHANISMS = {
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
}
"""The login module of each mechanism that takes a name and a password, the strongest first."""


def with_credentials(
    config: ClientConfig | None, user: str, password: str, source: str
) -> ClientConfig:
    """A client's configuration that logs in as a user. Raises CliError for its mechanism."""
    settings = {} if config is None else config.sources.static
    mechanism = "GSSAPI" if config is None else config.sasl_mechanism
    module = MECHANISMS.get(mechanism)
    if module is None:
        raise CliError(f"no login by name and password with sasl.mechanism={mechanism}")
    if not (user + password).isprintable():
        raise CliError("a name or password with control characters is not supported")
    values = {name: setting.text for name, setting in settings.items()}
    login = f"{module} required username={_quoted(user)} password={_quoted(password)};"
    return ClientConfig(values | {"sasl.jaas.config": login}, source)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
