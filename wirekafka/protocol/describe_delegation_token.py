"""DescribeDelegationToken: lists the delegation tokens of owners (KIP-48)."""

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


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    owners: list[Owner] | None = field(default=[])

    class Owner(Part):
        principal_type: String
        principal_name: String


class DescribeDelegationTokenResponse(Response, answers=DescribeDelegationTokenRequest):
    error_code: Int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32

    class DescribedDelegationToken(Part):
        principal_type: String
        principal_name: String
        token_requester_principal_type: String = field("3+")
        token_requester_principal_name: String = field("3+")
        issue_timestamp: Int64
        expiry_timestamp: Int64
        max_timestamp: Int64
        token_id: String
        hmac: Bytes
        renewers: list[DescribedDelegationTokenRenewer]

        class DescribedDelegationTokenRenewer(Part):
            principal_type: String
            principal_name: String
