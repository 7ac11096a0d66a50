"""Logs a command's connection in by SASL, with the options of `--command-config`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from wirekafka.client.sasl_client import ClientLogin
from wirekafka.codec.message import Request
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.security import jaas
from wirekafka.security.sasl.client import ClientExchange, exchange_of
from wirekafka.security.sasl.exchange import AuthenticationFailed

_NONCE_BYTES = 24

Send = Callable[[Request, Any], Any]
"""Sends a request and returns its response, given the class of the response."""


def login_of(config: ClientConfig) -> ClientExchange:
    """The exchange that the options ask for. Raises ConfigError, whose text has no password."""
    text = config.sources.text("sasl.jaas.config")
    if text is None:
        reason = f"{config.security_protocol} needs it"
        raise ConfigError("sasl.jaas.config", None, reason, f"sasl.jaas.config: {reason}")
    try:
        module = jaas.parse(text)
        return exchange_of(
            config.sasl_mechanism, module, lambda: secrets.token_urlsafe(_NONCE_BYTES)
        )
    except (jaas.JaasError, AuthenticationFailed) as error:
        message = f"cannot log in by {config.sasl_mechanism}: {error}"
        raise ConfigError("sasl.jaas.config", "[hidden]", str(error), message) from None


def log_in(config: ClientConfig, send: Send) -> None:
    """Authenticate the connection on which `send` exchanges requests.

    Raises AuthenticationFailed with the broker's reason, and ConfigError.
    """
    login = ClientLogin(config.sasl_mechanism, login_of(config))
    request: Request | None = login.first()
    while request is not None:
        request = login.respond(send(request, type(request).response))
