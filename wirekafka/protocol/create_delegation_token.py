"""CreateDelegationToken: creates a delegation token (KIP-48)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    owner_principal_type: String | None = field("3+", default="")
    owner_principal_name: String | None = field("3+", default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64

    class CreatableRenewers(Part):
        principal_type: String
        principal_name: String


class CreateDelegationTokenResponse(Response, answers=CreateDelegationTokenRequest):
    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+")
    token_requester_principal_name: String = field("3+")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32
