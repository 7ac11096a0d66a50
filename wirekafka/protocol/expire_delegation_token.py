"""ExpireDelegationToken: sets an earlier expiry for a delegation token, or ends it (KIP-48)."""

from __future__ import annotations

from wirekafka.codec.message import Bytes, Int16, Int32, Int64, Request, Response


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    hmac: Bytes
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Response, answers=ExpireDelegationTokenRequest):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32
