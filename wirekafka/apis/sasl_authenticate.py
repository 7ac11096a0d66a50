"""SaslAuthenticate: takes a step of a SASL mechanism (KIP-152, KIP-368)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Bytes, Int16, Int64, Request, Response, String, field
from wirekafka.errors import Error


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: Bytes


class SaslAuthenticateResponse(Response, answers=SaslAuthenticateRequest):
    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+")


@api(SaslAuthenticateRequest, SaslAuthenticateResponse)
def sasl_authenticate(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """Refuse, as Kafka does to who has no step left to take: everybody on a plaintext listener."""
    return SaslAuthenticateResponse(
        error_code=Error.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication")
