"""RenewDelegationToken: extends the expiry of a delegation token (KIP-48)."""

from __future__ import annotations

from wirekafka.codec.message import Bytes, Int16, Int32, Int64, Request, Response


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, answers=RenewDelegationTokenRequest):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32
