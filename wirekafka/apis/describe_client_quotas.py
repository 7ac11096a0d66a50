"""DescribeClientQuotas: tells what users, clients and addresses may use (KIP-546)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
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
from wirekafka.errors import KafkaError
from wirekafka.metadata.quotas import Component, matching


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
def describe_client_quotas(request: DescribeClientQuotasRequest,
                           call: Call) -> DescribeClientQuotasResponse:
    """Tell the quotas that were set for entities which match every component (KIP-546)."""
    components = [Component(each.entity_type, each.match_type, each.match)
                  for each in request.components]
    found = matching(call.broker.image.security, components, strict=request.strict)
    return DescribeClientQuotasResponse(entries=[
        _Entry(
            entity=[_Entry.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity],
            values=[_Entry.ValueData(key=key, value=value) for key, value in values.items()],
        ) for entity, values in found.items()])


def describe_client_quotas_failure(request: DescribeClientQuotasRequest, error: KafkaError,
                                   call: Call) -> DescribeClientQuotasResponse:
    """No entries at all is null."""
    return DescribeClientQuotasResponse(
        error_code=error.error, error_message=error.message, entries=None)
