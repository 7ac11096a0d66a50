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


def mechanisms_to_try(config: ClientConfig) -> list[str]:
    """The mechanisms by which a user with a password may log in, the strongest first.

    PLAIN, which sends the password, is among them if `sasl.mechanism` is PLAIN, or not set and
    there is TLS: a broker that refuses SCRAM would otherwise be sent each password.
    Raises CliError if `sasl.mechanism` takes no password.
    """
    chosen = config.sources.text("sasl.mechanism")
    if chosen is not None:
        _module_of(chosen)
    may_send_password = chosen == "PLAIN" or (chosen is None and config.uses_tls)
    return [each for each in MECHANISMS if each != "PLAIN" or may_send_password]


def with_credentials(
    config: ClientConfig | None, user: str, password: str, source: str, mechanism: str | None = None
) -> ClientConfig:
    """A client's configuration that logs in as a user. Raises CliError for its mechanism.

    `mechanism` is used instead of the configured one.
    """
    settings = {} if config is None else config.sources.static
    if mechanism is None:
        mechanism = "GSSAPI" if config is None else config.sasl_mechanism
    module = _module_of(mechanism)
    if not (user + password).isprintable():
        raise CliError("a name or password with control characters is not supported")
    values = {name: setting.text for name, setting in settings.items()}
    login = f"{module} required username={_quoted(user)} password={_quoted(password)};"
    values |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return ClientConfig(values, source)


def _module_of(mechanism: str) -> str:
    module = MECHANISMS.get(mechanism)
    if module is None:
        raise CliError(f"no login by name and password with sasl.mechanism={mechanism}")
    return module


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
