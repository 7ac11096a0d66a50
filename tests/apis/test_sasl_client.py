"""The requests of a client's SASL login, and how it ends."""

from __future__ import annotations

import pytest

from wirekafka.client.sasl_client import ClientLogin
from wirekafka.errors import Error
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wirekafka.security.sasl.client import PlainClient
from wirekafka.security.sasl.exchange import AuthenticationFailed

_UNKNOWN_CODE = 32_000


def login() -> ClientLogin:
    return ClientLogin("PLAIN", PlainClient("u", "p"))


def test_a_token_follows_the_handshake_and_the_session_the_token() -> None:
    started = login()
    assert started.first() == SaslHandshakeRequest(mechanism="PLAIN")
    token = started.respond(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert token == SaslAuthenticateRequest(auth_bytes=b"\0u\0p")
    assert started.respond(SaslAuthenticateResponse(session_lifetime_ms=1_000)) is None
    assert started.session_ms == 1_000


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (
            SaslHandshakeResponse(
                error_code=Error.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI", "OAUTHBEARER"]
            ),
            "PLAIN is none of its mechanisms: GSSAPI, OAUTHBEARER",
        ),
        (SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE), "ILLEGAL_SASL_STATE"),
        (SaslHandshakeResponse(error_code=_UNKNOWN_CODE), "UNKNOWN_SERVER_ERROR"),
        (
            SaslAuthenticateResponse(
                error_code=Error.SASL_AUTHENTICATION_FAILED, error_message="wrong password"
            ),
            "wrong password",
        ),
        (
            SaslAuthenticateResponse(error_code=Error.SASL_AUTHENTICATION_FAILED),
            "SASL_AUTHENTICATION_FAILED",
        ),
        (SaslAuthenticateResponse(error_code=_UNKNOWN_CODE), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_refusal_ends_the_login_with_the_brokers_reason(
    response: SaslHandshakeResponse | SaslAuthenticateResponse, complaint: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=complaint):
        login().respond(response)
