"""RenewDelegationToken: extends the expiry of a delegation token (KIP-48)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.token_access import require_may_manage_tokens
from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.tokens import RenewToken
from wirekafka.protocol.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def _on_controller(
    request: RenewDelegationTokenRequest, call: ControllerCall
) -> RenewDelegationTokenResponse:
    require_may_manage_tokens(call)
    command = RenewToken(bytes(request.hmac), call.principal, request.renew_period_ms)
    try:
        expiry_ms = await call.controller.submit(command)
    except KafkaError as error:
        # Kafka's controller reports the time 0, its brokers -1.
        return RenewDelegationTokenResponse(error_code=error.error)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


@api(RenewDelegationTokenRequest, RenewDelegationTokenResponse, on_controller=_on_controller)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    """Set a token's expiry; its owner and its renewers may."""
    require_may_manage_tokens(call)
    response: RenewDelegationTokenResponse = await call.broker.controller_channel.forward(
        request, call
    )
    return response


@failure_of(renew_delegation_token)
def renew_delegation_token_failure(
    request: RenewDelegationTokenRequest, error: KafkaError, call: Call | ControllerCall
) -> RenewDelegationTokenResponse:
    """Report the error without a time."""
    return RenewDelegationTokenResponse(error_code=error.error, expiry_timestamp_ms=-1)
