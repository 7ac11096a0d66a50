"""SaslHandshake: selects the SASL mechanism to authenticate with (KIP-43)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Request, Response, String


class SaslHandshakeRequest(Request, key=17, versions="0-1", flexible="none"):
    mechanism: String


class SaslHandshakeResponse(Response, answers=SaslHandshakeRequest):
    error_code: Int16
    mechanisms: list[String]
