"""DescribeClientQuotas: lists the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.quotas import Component, entity_of, filter_of, listed
from wirekafka.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from wirekafka.quotas.precedence import Entity
from wirekafka.security.acl import CLUSTER, DESCRIBE_CONFIGS

_Entry = DescribeClientQuotasResponse.EntryData


@api(DescribeClientQuotasRequest, DescribeClientQuotasResponse)
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    """List the quotas of the entities that match every component of the filter."""
    if not call.is_authorized(DESCRIBE_CONFIGS, CLUSTER):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED)
    components = [
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    matches = filter_of(components, strict=request.strict)
    turns = Turns()
    # Entities are listed in the order in which they were first set.
    found: dict[Entity, dict[str, float]] = {}
    for record in list(call.broker.image.security.quotas.values()):
        entity = entity_of(record)
        if matches(entity):
            found.setdefault(entity, {})[record.key] = record.value
        await turns.step()
    return DescribeClientQuotasResponse(
        entries=await turns.map(lambda each: _entry(*each), found.items())
    )


def _entry(entity: Entity, values: Mapping[str, float]) -> _Entry:
    return _Entry(
        entity=[_Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[_Entry.ValueData(key=key, value=value) for key, value in listed(values)],
    )


@failure_of(describe_client_quotas)
def describe_client_quotas_failure(
    request: DescribeClientQuotasRequest, error: KafkaError, call: Call
) -> DescribeClientQuotasResponse:
    """Report the error; the entries are null then."""
    return DescribeClientQuotasResponse(
        error_code=error.error, error_message=error.message, entries=None
    )
