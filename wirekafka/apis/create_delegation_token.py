"""CreateDelegationToken: creates a delegation token (KIP-48).

v3: for another owner (KIP-373).
"""

from __future__ import annotations

from typing import Any

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.token_access import require_may_manage_tokens
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.tokens import CreateToken
from wirekafka.protocol.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from wirekafka.security.acl import CREATE_TOKENS, USER


async def _on_controller(
    request: CreateDelegationTokenRequest, call: ControllerCall
) -> CreateDelegationTokenResponse:
    require_may_manage_tokens(call)
    owner = _authorized_owner(request, call)
    command = CreateToken(
        owner=owner,
        requester=call.principal,
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        max_lifetime_ms=request.max_lifetime_ms,
    )
    try:
        created = await call.controller.submit(command)
    except KafkaError as error:
        # Kafka's controller reports the time 0, its brokers -1.
        return _response(owner, call, error_code=error.error)
    token = created.token
    return _response(
        owner,
        call,
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=created.hmac,
    )


@api(CreateDelegationTokenRequest, CreateDelegationTokenResponse, on_controller=_on_controller)
async def create_delegation_token(
    request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    """Create a token for the client or, with CREATE_TOKENS on that user, for another owner."""
    require_may_manage_tokens(call)
    _authorized_owner(request, call)
    if any(each.principal_type != "User" for each in request.renewers):
        raise KafkaError(Error.INVALID_PRINCIPAL_TYPE)
    response: CreateDelegationTokenResponse = await call.broker.controller_channel.forward(
        request, call
    )
    return response


@failure_of(create_delegation_token)
def create_delegation_token_failure(
    request: CreateDelegationTokenRequest, error: KafkaError, call: Call | ControllerCall
) -> CreateDelegationTokenResponse:
    """Report the error with owner and requester."""
    return _response(
        _owner(request, call),
        call,
        error_code=error.error,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def _authorized_owner(request: CreateDelegationTokenRequest, call: Call | ControllerCall) -> str:
    owner = _owner(request, call)
    if owner != call.principal:
        call.authorize(CREATE_TOKENS, USER, owner)
    return owner


def _owner(request: CreateDelegationTokenRequest, call: Call | ControllerCall) -> str:
    if not request.owner_principal_name:
        return call.principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def _response(
    owner: str, call: Call | ControllerCall, **fields: Any
) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = call.principal.partition(":")
    return CreateDelegationTokenResponse(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        **fields,
    )
