"""The client's side of a SASL login: its requests in turn, each from the response before it."""

from __future__ import annotations

from wirekafka.errors import Error
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirekafka.security.sasl.client import ClientExchange
from wirekafka.security.sasl.exchange import AuthenticationFailed


class MechanismNotOffered(AuthenticationFailed):
    """A broker that does not have the mechanism of a login, whoever the user is."""


class ClientLogin:
    """The requests of one login by a mechanism; the caller sends them and passes the responses."""

    def __init__(self, mechanism: str, exchange: ClientExchange):
        self.session_ms = 0
        """How long the session lasts, known after the last response; 0 if it does not end."""
        self._mechanism = mechanism
        self._exchange = exchange

    def first(self) -> SaslHandshakeRequest:
        """Return the first request."""
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def respond(
        self, response: SaslHandshakeResponse | SaslAuthenticateResponse
    ) -> SaslAuthenticateRequest | None:
        """Return the request that follows a response, None after the last one.

        Raises AuthenticationFailed with the broker's reason, or if the broker does not prove that
        it knows the password. With SCRAM, this computes thousands of hashes.
        """
        if isinstance(response, SaslHandshakeResponse):
            self._check_handshake(response)
            token: bytes | None = self._exchange.first()
        elif response.error_code:
            raise AuthenticationFailed(response.error_message or Error.of(response.error_code).name)
        else:
            self.session_ms = response.session_lifetime_ms
            token = self._exchange.respond(bytes(response.auth_bytes))
        return SaslAuthenticateRequest(auth_bytes=token) if token is not None else None

    def _check_handshake(self, response: SaslHandshakeResponse) -> None:
        if response.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms)
            reason = f"{self._mechanism} is none of its mechanisms: {enabled}"
            raise MechanismNotOffered(reason)
        if response.error_code:
            raise AuthenticationFailed(Error.of(response.error_code).name)
