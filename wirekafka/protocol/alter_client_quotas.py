"""AlterClientQuotas: sets and removes the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Float64,
    Int16,
    Int32,
    Part,
    Request,
    Response,
    String,
    field,
)


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData]
    validate_only: Bool

    class EntryData(Part):
        entity: list[EntityData]
        ops: list[OpData]

        class EntityData(Part):
            entity_type: String
            entity_name: String | None = field(default="")

        class OpData(Part):
            key: String
            value: Float64
            remove: Bool


class AlterClientQuotasResponse(Response, answers=AlterClientQuotasRequest):
    throttle_time_ms: Int32
    entries: list[EntryData]

    class EntryData(Part):
        error_code: Int16
        error_message: String | None = field(default="")
        entity: list[EntityData]

        class EntityData(Part):
            entity_type: String
            entity_name: String | None = field(default="")
