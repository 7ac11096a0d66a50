"""Logs a command's connection in by SASL, with the options of `--command-config`."""

from __future__ import annotations

import secrets
from typing import Protocol, TypeVar

from wirekafka.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wirekafka.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirekafka.codec.message import Request, Response
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error
from wirekafka.security import jaas
from wirekafka.security.sasl.client import ClientExchange, exchange_of
from wirekafka.security.sasl.exchange import AuthenticationFailed

_NONCE_BYTES = 24

R = TypeVar("R", bound=Response)


class Send(Protocol):
    """Sends a request and returns its response."""

    def __call__(self, request: Request, answer: type[R], /) -> R:
        """One exchange."""


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
    exchange = login_of(config)
    shaken = send(SaslHandshakeRequest(mechanism=config.sasl_mechanism), SaslHandshakeResponse)
    if shaken.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(shaken.mechanisms)
        raise AuthenticationFailed(f"{config.sasl_mechanism} is none of its mechanisms: {enabled}")
    if shaken.error_code:
        raise AuthenticationFailed(Error(shaken.error_code).name)
    token: bytes | None = exchange.first()
    while token is not None:
        answer = send(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if answer.error_code:
            raise AuthenticationFailed(answer.error_message or Error(answer.error_code).name)
        token = exchange.respond(bytes(answer.auth_bytes))
