"""SaslHandshake: asks for a mechanism to authenticate by (KIP-43)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Request, Response, String
from wirekafka.errors import Error


class SaslHandshakeRequest(Request, key=17, versions="0-1", flexible="none"):
    mechanism: String


class SaslHandshakeResponse(Response, answers=SaslHandshakeRequest):
    error_code: Int16
    mechanisms: list[String]


@api(SaslHandshakeRequest, SaslHandshakeResponse)
def sasl_handshake(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Refuse, as Kafka does where there is nothing to authenticate for: on a plaintext listener."""
    return SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE)
