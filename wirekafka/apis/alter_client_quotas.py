"""AlterClientQuotas: sets and removes the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.quotas import AlterQuotas, QuotaChange, host_of, in_order
from wirekafka.protocol.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from wirekafka.quotas.precedence import Entity
from wirekafka.runtime.promise import Promise
from wirekafka.security.access import refusal
from wirekafka.security.acl import ALTER_CONFIGS, CLUSTER

_Result = AlterClientQuotasResponse.EntryData


@api(AlterClientQuotasRequest, AlterClientQuotasResponse, forwarded=True)
async def alter_client_quotas(
    request: AlterClientQuotasRequest, call: ControllerCall
) -> AlterClientQuotasResponse:
    """Change the quotas of each entity separately. Every node enforces them itself."""
    if not call.is_authorized(ALTER_CONFIGS, CLUSTER):
        raise refusal(CLUSTER)
    turns = Turns()
    changes = await turns.map(_change, request.entries)
    hosts = dict.fromkeys(await turns.map(host_of, changes))
    unknown = {host for host in hosts if host and await _address(host, call) is None}
    outcome = await call.controller.submit(AlterQuotas(changes, request.validate_only, unknown))
    return AlterClientQuotasResponse(
        entries=await turns.map(lambda each: _result(*each), outcome.items())
    )


async def _address(host: str, call: ControllerCall) -> str | None:
    found: Promise[str | None] = Promise()
    call.controller.resolve(host, found.set)
    return await found


def _change(entry: AlterClientQuotasRequest.EntryData) -> QuotaChange:
    values = {op.key: None if op.remove else op.value for op in entry.ops}
    return QuotaChange(_entity(entry), values, repeats_key=len(values) < len(entry.ops))


def _entity(entry: AlterClientQuotasRequest.EntryData) -> Entity:
    return in_order({each.entity_type: each.entity_name for each in entry.entity})


def _result(entity: Entity, error: KafkaError | None) -> _Result:
    return _Result(
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
        entity=[_Result.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


@failure_of(alter_client_quotas)
def alter_client_quotas_failure(
    request: AlterClientQuotasRequest, error: KafkaError, call: Call
) -> AlterClientQuotasResponse:
    """Report the error for every entity of the request."""
    return AlterClientQuotasResponse(
        entries=[_result(_entity(entry), error) for entry in request.entries]
    )
