"""DescribeClientQuotas: lists the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

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
