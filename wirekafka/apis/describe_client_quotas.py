"""DescribeClientQuotas: lists the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api, failure_of
from wirekafka.codec.message import (
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.quotas import Component, listed, matching
from wirekafka.security.acl import CLUSTER, DESCRIBE_CONFIGS


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData]
    strict: Bool

    class ComponentData(Part):
        entity_type: String
        match_type: Int8
        match: String | None = field(default="")


class DescribeClientQuotasResponse(Response, answers=DescribeClientQuotasRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
    entries: list[EntryData] | None = field(default=[])

    class EntryData(Part):
        entity: list[EntityData]
        values: list[ValueData]

        class EntityData(Part):
            entity_type: String
            entity_name: String | None = field(default="")

        class ValueData(Part):
            key: String
            value: Float64


_Entry = DescribeClientQuotasResponse.EntryData


@api(DescribeClientQuotasRequest, DescribeClientQuotasResponse)
def describe_client_quotas(
    request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    """List the quotas of the entities that match every component of the filter."""
    if not call.is_authorized(DESCRIBE_CONFIGS, CLUSTER):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED)
    components = [
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    matches = matching(call.broker.image.security, components, strict=request.strict)
    return DescribeClientQuotasResponse(
        entries=[
            _Entry(
                entity=[
                    _Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ],
                values=[_Entry.ValueData(key=key, value=value) for key, value in listed(values)],
            )
            for entity, values in matches.items()
        ]
    )


@failure_of(describe_client_quotas)
def describe_client_quotas_failure(
    request: DescribeClientQuotasRequest, error: KafkaError, call: Call
) -> DescribeClientQuotasResponse:
    """Report the error; the entries are null then."""
    return DescribeClientQuotasResponse(
        error_code=error.error, error_message=error.message, entries=None
    )
