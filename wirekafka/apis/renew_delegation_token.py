"""RenewDelegationToken: lets a delegation token live on (KIP-48)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Bytes, Int16, Int32, Int64, Request, Response
from wirekafka.errors import Error


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, answers=RenewDelegationTokenRequest):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32


@api(RenewDelegationTokenRequest, RenewDelegationTokenResponse)
def renew_delegation_token(
    request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    """Refuse, as Kafka does to who is not authenticated: nobody is on a plaintext listener."""
    return RenewDelegationTokenResponse(
        error_code=Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)
