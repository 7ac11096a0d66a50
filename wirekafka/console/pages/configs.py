"""The pages of configurations: which resources have one, and each option with its sources."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlencode

from wirekafka.client.client import CliError, check
from wirekafka.client.configurations import (
    BROKER,
    DEFAULT_SOURCE,
    KINDS,
    SOURCES,
    TOPIC,
    Entry,
    alter_configs,
    described,
)
from wirekafka.console.pages.page import Change, Page, PageError, PageView, Redirect, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Known, Unknown
from wirekafka.protocol.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

LINK = ("Configurations", "/configs", "c")


class Resource(NamedTuple):
    """Something that has a configuration; the default of all brokers has no name."""

    kind: str
    name: str


def show(visit: Visit) -> PageView:
    """The resources that have a configuration."""
    metadata = visit.client.metadata()
    found = [
        Resource("broker", ""),
        *(Resource("broker", str(each.node_id)) for each in metadata.brokers),
        *(Resource("topic", each.name or "") for each in metadata.topics),
    ]
    others = _others(visit)
    if not isinstance(others, Unknown):
        found += others
    kind = visit.query.get("kind", "")
    chosen = [each for each in found if kind in ("", each.kind)]
    values = {
        "title": "Configurations",
        "kinds": list(KINDS),
        "kind": kind,
        "others": others,
        "resources": table(chosen, visit.query, name=lambda row: row.name, sorts=_SORTS),
    }
    return PageView("configs.html", values)


def one(visit: Visit) -> PageView:
    """The options of one resource."""
    kind, name = _named(visit.query.get("kind", ""), visit.query.get("name", ""))
    entries = described(visit.client, KINDS[kind], name, in_detail=True)
    every = visit.query.get("all") == "1"
    shown = [each for each in entries if every or each.config_source != DEFAULT_SOURCE]
    values = {
        "title": f"Configuration of {kind} {name or '(default of all brokers)'}",
        "kind": kind,
        "name": name,
        "every": every,
        "hidden": len(entries) - len(shown),
        "sources": SOURCES,
        "entries": table(shown, visit.query, name=_option, sorts={"name": _option}),
        "can_change": visit.allows_changes,
        "edited": next((each for each in entries if each.name == visit.query.get("edit")), None),
    }
    return PageView("config.html", values)


def change(visit: Visit) -> Redirect:
    """Set an option, or delete its value."""
    kind, name = _named(visit.form.get("kind", ""), visit.form.get("name", ""))
    option = visit.form.get("option", "")
    if not option:
        raise PageError(400, "Name an option.")
    value = None if visit.form.get("action") == "delete" else visit.form.get("value", "")
    alter_configs(visit.client, KINDS[kind], name, {option: value})
    return Redirect(f"/config?{urlencode({'kind': kind, 'name': name})}")


def _again(visit: Visit) -> PageView:
    """The options again, with the form of the option that was not changed."""
    query = {name: visit.form.get(name, "") for name in ("kind", "name")}
    query |= {"edit": visit.form.get("option", ""), "all": "1"}
    view = one(replace(visit, query=query))
    return replace(view, values={**view.values, "query": query})


def _named(kind: str, name: str) -> Resource:
    if kind not in KINDS:
        raise PageError(404, f"There is no kind {kind!r} of configuration.")
    if not name and KINDS[kind] != BROKER:
        raise PageError(404, f"Which {kind}?")
    return Resource(kind, name)


def _others(visit: Visit) -> Known[list[Resource]]:
    """Groups and client metrics; brokers before 4.1 cannot list them."""
    names = {code: name for name, code in KINDS.items() if code not in (TOPIC, BROKER)}
    try:
        response = visit.client.send(
            ListConfigResourcesRequest(resource_types=list(names)), ListConfigResourcesResponse
        )
        check(response.error_code, "configurations of groups and client metrics")
    except CliError as error:
        return Unknown(str(error))
    return [
        Resource(names[each.resource_type], each.resource_name)
        for each in response.config_resources
        if each.resource_type in names
    ]


def _option(entry: Entry) -> str:
    return entry.name


_SORTS = {"kind": lambda row: row, "name": lambda row: (row.name, row.kind)}
ENTRIES = (Page("/configs", show), Page("/config", one), Change("/config", change, _again))
