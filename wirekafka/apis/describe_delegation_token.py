"""DescribeDelegationToken: lists the delegation tokens of owners (KIP-48).

v3: the principal that requested each token (KIP-373).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.token_access import require_may_manage_tokens
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from wirekafka.protocol.records.metadata import DelegationTokenRecord
from wirekafka.security.acl import DELEGATION_TOKEN, DESCRIBE, DESCRIBE_TOKENS, USER
from wirekafka.security.tokens import belongs_to, hmac_of, requested

_Described = DescribeDelegationTokenResponse.DescribedDelegationToken


@api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, on_every_listener=True)
async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    """List the tokens that belong to the owners, or all, as far as the client may see them."""
    require_may_manage_tokens(call)
    secret = call.broker.config.delegation_token_secret_key
    if not secret:
        raise KafkaError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    turns = Turns()
    described = []
    for token in list(call.broker.image.security.tokens.values()):
        if requested(token, owners) and _may_describe(token, call):
            described.append(_described(token, hmac_of(token.token_id, secret)))
        await turns.step()
    return DescribeDelegationTokenResponse(tokens=described)


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
