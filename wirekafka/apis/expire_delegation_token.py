"""ExpireDelegationToken: sets an earlier expiry for a delegation token, or ends it (KIP-48)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.token_access import require_may_manage_tokens
from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.tokens import ExpireToken
from wirekafka.protocol.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def _on_controller(
    request: ExpireDelegationTokenRequest, call: ControllerCall
) -> ExpireDelegationTokenResponse:
    require_may_manage_tokens(call)
    command = ExpireToken(bytes(request.hmac), call.principal, request.expiry_time_period_ms)
    try:
        expiry_ms = await call.controller.submit(command)
    except KafkaError as error:
        # Kafka's controller reports the time 0, its brokers -1.
        return ExpireDelegationTokenResponse(error_code=error.error)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


@api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, on_controller=_on_controller)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    """Set an earlier expiry or remove the token; the same principals may as renew it."""
    require_may_manage_tokens(call)
    response: ExpireDelegationTokenResponse = await call.broker.controller_channel.forward(
        request, call
    )
    return response


@failure_of(expire_delegation_token)
def expire_delegation_token_failure(
    request: ExpireDelegationTokenRequest, error: KafkaError, call: Call | ControllerCall
) -> ExpireDelegationTokenResponse:
    """Report the error without a time."""
    return ExpireDelegationTokenResponse(error_code=error.error, expiry_timestamp_ms=-1)
