"""SaslHandshake: selects the SASL mechanism to authenticate with (KIP-43)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirekafka.security.sasl.login import Expected


@api(
    SaslHandshakeRequest, SaslHandshakeResponse, on_every_listener=True, before_authentication=True
)
def sasl_handshake(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Select the mechanism of this login.

    Refused after the login and on listeners without SASL, where the connection stays open.
    """
    login = call.client.login
    if login is None or login.expected is Expected.REQUESTS:
        return SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE)
    login.handshake(request.mechanism, call.version)
    return SaslHandshakeResponse(mechanisms=login.mechanisms)


@failure_of(sasl_handshake)
def sasl_handshake_failure(
    request: SaslHandshakeRequest, error: KafkaError, call: Call
) -> SaslHandshakeResponse:
    """Report the error; UNSUPPORTED_SASL_MECHANISM comes with the enabled mechanisms."""
    mechanisms: list[str] = []
    if error.error is Error.UNSUPPORTED_SASL_MECHANISM and call.client.login is not None:
        mechanisms = call.client.login.mechanisms
    return SaslHandshakeResponse(error_code=error.error, mechanisms=mechanisms)
