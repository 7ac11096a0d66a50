"""SaslAuthenticate: exchanges the tokens of a SASL mechanism (KIP-152).

v1: session lifetime (KIP-368).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wirekafka.security.sasl.login import Expected


@api(
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    on_every_listener=True,
    before_authentication=True,
)
def sasl_authenticate(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """Answer a token of the login; the last answer has the lifetime of the session.

    Refused after the login and on listeners without SASL, where the connection stays open.
    """
    login = call.client.login
    if login is None or login.expected is not Expected.TOKEN:
        return SaslAuthenticateResponse(
            error_code=Error.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    now_ms = call.now_ms
    step = login.respond(bytes(request.auth_bytes), now_ms)
    return SaslAuthenticateResponse(
        auth_bytes=step.token, session_lifetime_ms=login.session_lifetime_ms(now_ms)
    )
