"""SASL/OAUTHBEARER: a bearer token in one message (RFC 7628, KIP-255)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wirekafka.security.sasl.exchange import AuthenticationFailed, Challenge, Step, Success

NAME = "OAUTHBEARER"
LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01"
_MESSAGE = re.compile(rf"n,(?:a=(?P<authorization_id>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTHORIZATION = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_ACKNOWLEDGEMENT = b"\x01"


class BearerToken(NamedTuple):
    """The claims of a valid token; `expires_ms` is in wall-clock milliseconds."""

    user: str
    expires_ms: int


@dataclass
class TokenRefused(Exception):
    """An invalid token: the reason for the log, and a scope that the token lacks."""

    reason: str
    missing_scope: str | None = None

    def __str__(self) -> str:
        return self.reason


class Validator(Protocol):
    """Checks bearer tokens."""

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Check a token and read its claims. Raises TokenRefused."""


class OAuthBearer:
    """The mechanism with the validator of a listener."""

    def __init__(self, validator: Validator):
        self._validator = validator

    def start(self) -> OAuthBearerExchange:
        return OAuthBearerExchange(self._validator)


class OAuthBearerExchange:
    """One OAUTHBEARER authentication: a refused token is first reported and then acknowledged."""

    def __init__(self, validator: Validator):
        self._validator = validator
        self._report: str | None = None
        self._reason = ""

    def respond(self, token: bytes, now_ms: int) -> Step:
        """Check the client's token, or end the exchange that was refused before.

        Raises AuthenticationFailed.
        """
        if self._report is not None:
            # Whatever follows the report, a second token included, ends the exchange.
            shown = self._report if token == _ACKNOWLEDGEMENT else None
            raise AuthenticationFailed(self._reason, shown)
        authorization_id, bearer = _parsed(token)
        try:
            valid = self._validator.validate(bearer, now_ms)
        except TokenRefused as refusal:
            self._report = _report(refusal.missing_scope)
            self._reason = refusal.reason
            return Challenge(self._report.encode())
        if authorization_id not in ("", valid.user):
            raise AuthenticationFailed(
                "another authorization id than the token's principal",
                "Authentication failed: Client requested an authorization id "
                f"({authorization_id}) that is different from the token's principal name "
                f"({valid.user})",
            )
        return Success(b"", valid.user, valid.expires_ms)


def _parsed(message: bytes) -> tuple[str, str]:
    """The authorization id, perhaps empty, and the bearer token of a client's message."""
    match = _MESSAGE.fullmatch(message.decode("latin-1"))
    if match is None:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: no 'auth'")
    authorization = _AUTHORIZATION.fullmatch(pairs["auth"])
    if authorization is None or authorization["scheme"].lower() != "bearer":
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: invalid 'auth'")
    return match["authorization_id"] or "", authorization["token"]


def _report(missing_scope: str | None) -> str:
    """The error message of RFC 7628 section 3.2.2, formatted as Kafka formats it."""
    if missing_scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":{json.dumps(missing_scope)}}}'
