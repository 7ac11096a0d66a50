"""One connection's authentication: the order of requests, and the end.

Messages come in the order of Kafka's SaslServerAuthenticator (KIP-43, KIP-152, KIP-368).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from wirekafka.errors import Error, KafkaError
from wirekafka.security.sasl.exchange import (
    AuthenticationFailed,
    Mechanism,
    SaslExchange,
    Step,
    Success,
)

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
"""API keys."""

_LEAST_BETWEEN_LOGINS_MS = 1000


class LoginFailed(KafkaError):
    """A login that ends here: its response and the close of the connection are delayed.

    `message` is for the client, `reason` for the log.
    """

    def __init__(self, error: Error, message: str | None, reason: str):
        super().__init__(error, message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Enabled:
    """The mechanisms of a listener by name, in the order in which they are reported to clients.

    `session_ms` is `connections.max.reauth.ms` by mechanism; 0 sets no limit.
    """

    mechanisms: Mapping[str, Mechanism]
    session_ms: Mapping[str, int]


class Expected(Enum):
    """The next request that the client has to send."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    BARE_TOKEN = auto()
    """A token without a request around it, after a SaslHandshake of version 0."""
    NOTHING_MORE = auto()
    """The next message ends the connection: another mechanism was requested for a second login."""
    REQUESTS = auto()
    """The client has authenticated."""


class Login:
    """The authentication of one connection, and later logins that renew its session."""

    def __init__(self, enabled: Enabled):
        self._enabled = enabled
        self.expected = Expected.VERSIONS_OR_HANDSHAKE
        self.failure: LoginFailed | None = None
        """Why the login has failed; it can only be closed then."""
        self.user: str | None = None
        """The name of the authenticated user; it cannot change in a later login."""
        self.is_token_authenticated = False
        """Whether the client logged in with a delegation token (KIP-48)."""
        self.expires_ms: int | None = None
        """When the session ends, in wall-clock milliseconds; None if it does not end."""
        self._mechanism = ""
        self._previous_mechanism: str | None = None
        self._exchange: SaslExchange | None = None
        self._began_again_ms: int | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The names of the enabled mechanisms."""
        return list(self._enabled.mechanisms)

    @property
    def is_renewal(self) -> bool:
        """Whether the client has authenticated before."""
        return self._previous_mechanism is not None

    def admits(self, key: int) -> bool:
        """Whether a request of this API key may be served now.

        Raises LoginFailed for a request that is answered with an error; a request that is not
        admitted gets no response.
        """
        match self.expected:
            case Expected.VERSIONS_OR_HANDSHAKE:
                return key in (API_VERSIONS, SASL_HANDSHAKE)
            case Expected.HANDSHAKE:
                return key == SASL_HANDSHAKE
            case Expected.TOKEN:
                if key != SASL_AUTHENTICATE:
                    raise self.failed(Error.ILLEGAL_SASL_STATE, None, "a request during the login")
                return True
            case Expected.REQUESTS:
                return True
            case _:
                return False

    def versions_sent(self) -> None:
        """Note a successful ApiVersions response, after which only a handshake may come."""
        if self.expected is Expected.VERSIONS_OR_HANDSHAKE:
            self.expected = Expected.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> None:
        """Select the mechanism. Raises LoginFailed if it is not enabled.

        Version 0 of the request means that tokens are sent without requests around them.
        """
        found = self._enabled.mechanisms.get(mechanism)
        if found is None:
            raise self.failed(
                Error.UNSUPPORTED_SASL_MECHANISM, None, "the mechanism is not enabled"
            )
        if self._previous_mechanism not in (None, mechanism):
            self.expected = Expected.NOTHING_MORE
            return
        self._mechanism = mechanism
        self._exchange = found.start()
        self.expected = Expected.TOKEN if version >= 1 else Expected.BARE_TOKEN

    def respond(self, token: bytes, now_ms: int) -> Step:
        """Answer a token; a Success ends the login. Raises LoginFailed."""
        assert self._exchange is not None, "after a handshake"
        try:
            step = self._exchange.respond(token, now_ms)
            if isinstance(step, Success):
                self._complete(step, now_ms)
        except AuthenticationFailed as failure:
            raise self.failed(
                Error.SASL_AUTHENTICATION_FAILED,
                failure.shown or self._generic(),
                f"{self._mechanism}: {failure}",
            ) from None
        return step

    def session_lifetime_ms(self, now_ms: int) -> int:
        """How long the session still lasts; 0 if it does not end, or not established yet."""
        if self.expected is not Expected.REQUESTS or self.expires_ms is None:
            return 0
        return max(0, self.expires_ms - now_ms)

    def is_expired(self, now_ms: int) -> bool:
        """Whether the session has ended: any request but a handshake closes the connection."""
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def begin_again(self, now_ms: int) -> bool:
        """Let the client renew its session by a handshake (KIP-368); False if it may not.

        A client may renew once a second, and only if the session has an end.
        """
        began_ms = self._began_again_ms
        if self.expires_ms is None or (
            began_ms is not None and 0 <= now_ms - began_ms < _LEAST_BETWEEN_LOGINS_MS
        ):
            return False
        self._began_again_ms = now_ms
        self._previous_mechanism = self._mechanism
        self.expected = Expected.HANDSHAKE
        return True

    def use(self, enabled: Enabled) -> None:
        """Replace the mechanisms for the next login, as their configuration has changed."""
        self._enabled = enabled

    def failed(self, error: Error, message: str | None, reason: str) -> LoginFailed:
        """End the login with a failure, which is returned."""
        self.expected = Expected.NOTHING_MORE
        self.failure = LoginFailed(error, message, reason)
        return self.failure

    def _complete(self, success: Success, now_ms: int) -> None:
        if self.is_renewal and self.user != success.user:
            raise AuthenticationFailed(
                "another principal than before",
                "Cannot change principals during re-authentication from "
                f"User.{self.user}: User.{success.user}",
            )
        self.user = success.user
        self.is_token_authenticated = success.by_delegation_token
        ends = [] if success.expires_ms is None else [max(now_ms, success.expires_ms)]
        if session_ms := self._enabled.session_ms.get(self._mechanism):
            ends.append(now_ms + session_ms)
        self.expires_ms = min(ends, default=None)
        self.expected = Expected.REQUESTS
        self._exchange = None

    def _generic(self) -> str:
        """The message for credentials that are refused without saying why."""
        occasion = "re-authentication" if self.is_renewal else "authentication"
        return (
            f"Authentication failed during {occasion} due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )
