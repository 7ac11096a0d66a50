"""The settings of a schema registry in a client's properties, as Confluent's clients name them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from wirekafka.client.schema_registry import KEPT_CHARACTERS, SchemaRegistry
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError

_PREFIX = "schema.registry."
_URL = "schema.registry.url"
_USER_SOURCE = "basic.auth.credentials.source"
_USER = "basic.auth.user.info"
_JAAS = "sasl.jaas.config"
_TIMEOUT = "schema.registry.request.timeout.ms"
_SOURCES = ("URL", "USER_INFO", "SASL_INHERIT")
_DEFAULT_TIMEOUT_MS = "10000"


def registry_of(
    config: ClientConfig | None,
    url: str | None = None,
    tls: ssl.SSLContext | None = None,
    kept_characters: int = KEPT_CHARACTERS,
) -> SchemaRegistry | None:
    """The registry of `url` or else of the properties; None if neither names one.

    The user is a user of the URL, of `schema.registry.basic.auth.user.info`, or with
    `basic.auth.credentials.source=SASL_INHERIT` the user of the brokers. Authorities and keys are
    `schema.registry.ssl.*`, unless `tls` is given. Raises ConfigError and CliError.
    """
    values = {} if config is None else _values(config)
    url = url or values.get(_URL)
    if not url:
        return None
    user, password = _user(values)
    return SchemaRegistry(
        url,
        user=user,
        password=password,
        tls=tls or _tls(values, "" if config is None else config.sources.source(_URL)),
        timeout_s=_timeout_ms(values) / 1000,
        kept_characters=kept_characters,
    )


def _values(config: ClientConfig) -> dict[str, str]:
    names = config.sources.names()
    return {name: text for name in names if (text := config.sources.text(name)) is not None}


def _user(values: Mapping[str, str]) -> tuple[str, str]:
    """A user and a password; both are empty if only the URL may have them."""
    source = values.get(_PREFIX + _USER_SOURCE) or values.get(_USER_SOURCE)
    info = values.get(_PREFIX + _USER) or values.get(_USER)
    if source is None:
        source = "URL" if info is None else "USER_INFO"
    match source:
        case "URL":
            return "", ""
        case "USER_INFO":
            user, colon, password = (info or "").partition(":")
            if not colon:
                raise _wrong(_PREFIX + _USER, "it is USER:PASSWORD")
            return user, password
        case "SASL_INHERIT":
            return _user_of_brokers(values)
    raise _wrong(_USER_SOURCE, f"{source} is none of {', '.join(_SOURCES)}")


def _user_of_brokers(values: Mapping[str, str]) -> tuple[str, str]:
    from wirekafka.security import jaas

    text = values.get(_PREFIX + _JAAS) or values.get(_JAAS)
    if text is None:
        raise _wrong(_JAAS, "SASL_INHERIT needs it")
    try:
        options = jaas.parse(text).options
        return options["username"], options["password"]
    except jaas.JaasError as error:
        raise _wrong(_JAAS, str(error)) from None
    except KeyError:
        raise _wrong(_JAAS, "SASL_INHERIT needs a login module with a password") from None


def _tls(values: Mapping[str, str], source: str) -> ssl.SSLContext | None:
    """The TLS context of `schema.registry.ssl.*`; None for the authorities of the system."""
    prefix = f"{_PREFIX}ssl."
    own = {
        name.removeprefix(_PREFIX): text for name, text in values.items() if name.startswith(prefix)
    }
    return tls_of(own, source)


def tls_of(own: Mapping[str, str], source: str) -> ssl.SSLContext | None:
    """The TLS context of options `ssl.*`; None without any. Raises ConfigError.

    `source` is where they were set, for messages.
    """
    if not own:
        return None
    from wirekafka.security.tls_context import client_context

    return client_context(ClientConfig(dict(own), source)).context


def _timeout_ms(values: Mapping[str, str]) -> int:
    text = values.get(_TIMEOUT, _DEFAULT_TIMEOUT_MS)
    if not text.isascii() or not text.isdigit() or not int(text):
        raise _wrong(_TIMEOUT, "it is a number of milliseconds")
    return int(text)


def _wrong(name: str, reason: str) -> ConfigError:
    return ConfigError(name, None, reason, f"{name}: {reason}")
