"""The pages of quotas: the list, and the forms that set and remove one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wirekafka.client.admin.quotas import alter_quotas, list_quotas
from wirekafka.client.client import Client, CliError
from wirekafka.console.pages.page import Change, Page, PageError, PageView, Redirect, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Known, Unknown
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasResponse
from wirekafka.quotas.precedence import CLIENT_ID, IP, USER

LINK = ("Quotas", "/quotas", "l")

KINDS: Mapping[str, Sequence[str]] = {
    "a user": (USER,),
    "a client id": (CLIENT_ID,),
    "a client id of a user": (USER, CLIENT_ID),
    "an IP address": (IP,),
}
"""Whom quotas are for, and the types of entities that name it."""
_OF_CLIENTS = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of a thread's time",
    "controller_mutation_rate": "partitions/s",
}
_OF_ADDRESSES = {"connection_creation_rate": "connections/s"}
UNITS = _OF_CLIENTS | _OF_ADDRESSES


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """A limit of an entity; a name of None is the default of its type."""

    names: Mapping[str, str | None]
    quota: str
    value: float

    @property
    def entity(self) -> str:
        """Whom it is for."""
        return ", ".join(
            f"{kind} {'(default)' if name is None else name}" for kind, name in self.names.items()
        )

    @property
    def shown(self) -> str:
        """The value, exactly."""
        return f"{self.value:.15g}"

    @property
    def unit(self) -> str:
        """The unit of the value; empty for quotas that only a later Kafka knows."""
        return UNITS.get(self.quota, "")

    @property
    def fields(self) -> dict[str, str]:
        """The fields by which forms and links name it."""
        kind = next((word for word, types in KINDS.items() if set(types) == set(self.names)), "")
        names = {each: self.names.get(each) or "" for each in (USER, CLIENT_ID, IP)}
        return {"for": kind, **names, "quota": self.quota}


def show(visit: Visit) -> PageView:
    """All quotas that the visitor may see, and the form that sets one."""
    found = _quotas(visit.client)
    values = {
        "title": "Quotas",
        "unknown": found if isinstance(found, Unknown) else None,
        "quotas": table(
            [] if isinstance(found, Unknown) else found,
            visit.query,
            name=lambda row: f"{row.entity} {row.quota}",
            sorts=_SORTS,
        ),
        "kinds": list(KINDS),
        "units": UNITS,
        "chosen": {name: visit.query.get(name, "") for name in _FIELDS},
    }
    return PageView("quotas.html", values)


def change(visit: Visit) -> Redirect:
    """Set a quota."""
    form = {name: text.strip() for name, text in visit.form.items()}
    entity, quota = _entity(form), _quota(form)
    text = form.get("value", "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise PageError(400, f"A quota is a number greater than 0, not {text!r}.")
    alter_quotas(visit.client, entity, {quota: value})
    return Redirect("/quotas")


def confirm(visit: Visit) -> PageView:
    """The quota that would be removed."""
    fields = visit.form or visit.query
    entity, quota = _entity(fields), _quota(fields)
    names = {kind: name or None for kind, name in entity.items()}
    listed = _quotas(visit.client)
    found = [
        each
        for each in ([] if isinstance(listed, Unknown) else listed)
        if each.quota == quota and dict(each.names) == names
    ]
    if not found:
        raise PageError(404, "There is no such quota.")
    return PageView("quota_remove.html", {"title": "Remove a quota", "line": found[0]})


def remove(visit: Visit) -> Redirect:
    """Remove the quota that was confirmed."""
    alter_quotas(visit.client, _entity(visit.form), {_quota(visit.form): None})
    return Redirect("/quotas")


def _quotas(client: Client) -> Known[Sequence[QuotaLine]]:
    try:
        entries = list_quotas(client)
    except CliError as error:
        return Unknown(str(error))
    return [
        QuotaLine(
            {part.entity_type: part.entity_name for part in sorted(entry.entity, key=_by_type)},
            value.key,
            value.value,
        )
        for entry in entries
        for value in entry.values
    ]


def _by_type(part: DescribeClientQuotasResponse.EntryData.EntityData) -> bool:
    """The user comes first."""
    return part.entity_type != USER


def _entity(fields: Mapping[str, str]) -> dict[str, str]:
    """The entity of a form; an empty name is the default of a type. Raises PageError."""
    kind = fields.get("for", "")
    if kind not in KINDS:
        raise PageError(400, f"A quota is for one of these: {', '.join(KINDS)}.")
    for each in (USER, CLIENT_ID, IP):
        if each not in KINDS[kind] and fields.get(each, ""):
            raise PageError(400, f"Leave {each} empty: the quota is for {kind}.")
    return {each: fields.get(each, "") for each in KINDS[kind]}


def _quota(fields: Mapping[str, str]) -> str:
    quota = fields.get("quota", "")
    if not quota:
        raise PageError(400, "Choose a quota.")
    return quota


_FIELDS = ("for", USER, CLIENT_ID, IP, "quota", "value")
_SORTS = {
    "entity": lambda row: (row.entity, row.quota),
    "quota": lambda row: (row.quota, row.entity),
    "value": lambda row: (row.quota, row.value),
}

ENTRIES = (
    Page("/quotas", show),
    Change("/quotas", change, show),
    Page("/quotas/remove", confirm),
    Change("/quotas/remove", remove, confirm),
)
