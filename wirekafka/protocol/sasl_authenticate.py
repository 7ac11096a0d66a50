"""SaslAuthenticate: exchanges the tokens of a SASL mechanism (KIP-152)."""

from __future__ import annotations

from wirekafka.codec.message import Bytes, Int16, Int64, Request, Response, String, field


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: Bytes


class SaslAuthenticateResponse(Response, answers=SaslAuthenticateRequest):
    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+")
