"""Requests about client quotas, and what an entity has once all is applied."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = range(3)
"""How a component of a filter matches."""

QuotaParts = Sequence[tuple[str, str | None]]
"""The types and names of an entity's parts; without a name, the default of the type."""
Values = Iterable[tuple[str, float | None]]
"""Quotas, None where one is removed."""

_MARK = {
    IP: ("connection_creation_rate", 4321.0),
    USER: ("request_percentage", 4321.0),
    CLIENT_ID: ("request_percentage", 4321.0),
}


def entry_of(parts: QuotaParts, values: Values) -> Any:
    """An entry of an AlterClientQuotas request."""
    entry = AlterClientQuotasRequest.EntryData
    return entry(
        entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[
            entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values
        ],
    )


def alter(
    parts: QuotaParts, *values: tuple[str, float | None], validate_only: bool = False
) -> AlterClientQuotasRequest:
    """An AlterClientQuotas request of one entity."""
    return AlterClientQuotasRequest(entries=[entry_of(parts, values)], validate_only=validate_only)


def describe(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    """A DescribeClientQuotas request of types, ways to match, and names."""
    part = DescribeClientQuotasRequest.ComponentData
    return DescribeClientQuotasRequest(
        components=[
            part(entity_type=kind, match_type=how, match=name) for kind, how, name in components
        ],
        strict=strict,
    )


def quotas_of(stage: Stage, parts: QuotaParts) -> Mapping[str, float]:
    """The quotas of an entity, by the home broker."""
    components = [(kind, DEFAULT if name is None else EXACT, name) for kind, name in parts]
    entries = stage.do(describe(*components, strict=True), 1).entries or ()
    return {each.key: each.value for entry in entries for each in entry.values}


def note_quotas(stage: Stage, parts: QuotaParts) -> None:
    """Compare the quotas of an entity, when all earlier changes are applied."""
    key, mark = _MARK[parts[0][0]]
    stage.do(alter(parts, (key, mark)), 1)
    stage.until(lambda: quotas_of(stage, parts).get(key) == mark, f"{key} of {parts}")
    found = quotas_of(stage, parts)
    stage.note("quotas", {each: value for each, value in found.items() if each != key})
    stage.do(alter(parts, *((each, None) for each in found)), 1)
    stage.until(lambda: not quotas_of(stage, parts), f"no quotas of {parts}")


def address(stage: Stage) -> str:
    """An address for documentation (RFC 5737) that hardly any other case has."""
    found = f"192.0.2.{secrets.randbelow(256)}"
    stage.call(found, "an IP address")
    return found
