"""ExpireDelegationToken: ends a delegation token (KIP-48)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Bytes, Int16, Int32, Int64, Request, Response
from wirekafka.errors import Error


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    hmac: Bytes
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Response, answers=ExpireDelegationTokenRequest):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32


@api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse)
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    """Refuse, as Kafka does to who is not authenticated: nobody is on a plaintext listener."""
    return ExpireDelegationTokenResponse(
        error_code=Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)
