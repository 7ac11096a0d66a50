"""DescribeDelegationToken: lists the delegation tokens of owners (KIP-48).

v3: the principal that requested each token (KIP-373).
"""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.apis.token_access import require_may_manage_tokens
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
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.records import DelegationTokenRecord
from wirekafka.security.acl import DELEGATION_TOKEN, DESCRIBE, DESCRIBE_TOKENS, USER
from wirekafka.security.tokens import belongs_to, hmac_of, requested


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


_Described = DescribeDelegationTokenResponse.DescribedDelegationToken


@api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, on_every_listener=True)
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    """List the tokens that belong to the owners, or all, as far as the client may see them."""
    require_may_manage_tokens(call)
    secret = call.broker.config.delegation_token_secret_key
    if not secret:
        raise KafkaError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, hmac_of(token.token_id, secret))
            for token in call.broker.image.security.tokens.values()
            if requested(token, owners) and _may_describe(token, call)
        ]
    )


def _may_describe(token: DelegationTokenRecord, call: Call) -> bool:
    return (
        belongs_to(token, call.principal)
        or call.is_authorized(DESCRIBE, DELEGATION_TOKEN, token.token_id)
        or call.is_authorized(DESCRIBE_TOKENS, USER, token.owner)
    )


def _described(token: DelegationTokenRecord, hmac: bytes) -> _Described:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return _Described(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            _Described.DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )
