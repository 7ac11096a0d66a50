"""The page of the wire: the requests and responses of one client, while they are exchanged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from wirekafka.client.client import check
from wirekafka.console.pages.page import AT_ONCE, Event, Live, Page, PageError, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.protocol_steps import is_step
from wirekafka.console.render import Renderer
from wirekafka.console.source import Unknown
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.server.monitoring.wire_tap import (
    Choice,
    TooManyWatches,
    WatchedExchange,
    WireWatches,
)
from wirekafka.visible_text import visible

LINK = ("Wire", "/wire", "w")

_ALTER_CONFIGS = 11
"""Kafka's code of the operation, whose bit is set in authorized operations."""
_CHOICES = ("client", "connection", "all")
_PARAMETERS = (*_CHOICES, "api", "error", "q")
_ONLY_ERRORS = "any"
_EVERY_S = 0.3
_CHECK_EVERY_S = 10.0
_STEP_S = 3.0
_REFUSED = (
    "Requests of other clients are shown only to users with DESCRIBE and ALTER_CONFIGS on the"
    " cluster, who may turn on the request log, too."
)


def show(visit: Visit) -> PageView:
    """The clients that are connected now."""
    wire = visit.source.wire()
    if isinstance(wire, Unknown):
        return PageView("wire.html", {"title": "Wire", "clients": wire})
    _authorize(visit)
    values = {
        "title": "Wire",
        "clients": table(
            wire.clients(),
            visit.query,
            name=lambda each: " ".join(
                (each.client_id, each.host, each.principal, each.software, each.connection_id)
            ),
            sorts=_SORTS,
        ),
    }
    return PageView("wire.html", values)


def watch(visit: Visit) -> PageView:
    """One client, live; or by `plain` its exchanges within a few seconds."""
    wire = _wire(visit)
    choice = _choice(visit)
    kept = {name: visit.query[name] for name in _PARAMETERS if name in visit.query}
    values: dict[str, Any] = {
        "title": f"Wire of {_name_of(choice)}",
        "chosen": {name: visit.query[name] for name in _CHOICES if name in visit.query},
        "apis": wire.apis(),
        "events": f"/wire/events?{urlencode(kept)}",
        "found": None,
    }
    if visit.query.get(AT_ONCE):
        number = _started(wire, choice)
        try:
            time.sleep(_STEP_S)
            read = wire.read(number) or ()
            values["found"] = [_shown(each) for each in read if _passes(each, visit.query)]
        finally:
            wire.stop(number)
    return PageView("wire_watch.html", values)


def events(visit: Visit, renderer: Renderer) -> Iterator[Event | None]:
    """The exchanges of one client, each once its response is there."""
    wire = _wire(visit)
    choice = _choice(visit)
    number = _started(wire, choice)
    last = count = shown = 0
    checked_s = time.monotonic()
    try:
        yield Event("status", "Watching. Nothing has been exchanged yet.")
        while True:
            found = wire.read(number, last)
            if found is None:
                yield Event("status", "The watch has ended.")
                return
            missed = 0
            for each in found:
                missed += each.number - last - 1
                last = each.number
                if _passes(each, visit.query):
                    values = {"shown": _shown(each), "missed": missed}
                    yield Event("row", renderer.page("wire_row.html", values))
                    shown, missed = shown + 1, 0
            count += len(found)
            if found:
                passed = "" if shown == count else f", {shown} of which pass the filter"
                yield Event("status", f"Watching. {count} requests so far{passed}.")
            if time.monotonic() - checked_s > _CHECK_EVERY_S:
                _authorize(visit)
                checked_s = time.monotonic()
            yield None
            time.sleep(_EVERY_S)
    finally:
        wire.stop(number)


def _wire(visit: Visit) -> WireWatches:
    wire = visit.source.wire()
    if isinstance(wire, Unknown):
        raise PageError(404, wire.reason)
    _authorize(visit)
    assert isinstance(wire, WireWatches)
    return wire


def _authorize(visit: Visit) -> None:
    """Raise PageError unless the visitor may configure the cluster."""
    response = visit.client.send(
        DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse
    )
    check(response.error_code, "the cluster", response.error_message)
    operations = response.cluster_authorized_operations
    if operations < 0 or not operations >> _ALTER_CONFIGS & 1:
        raise PageError(403, _REFUSED)


def _choice(visit: Visit) -> Choice:
    api = visit.query.get("api", "").strip() or None
    if "connection" in visit.query:
        return Choice(connection_id=visit.query["connection"], api=api)
    if "all" in visit.query:
        return Choice(api=api)
    if "client" not in visit.query:
        raise PageError(400, "Choose a client.")
    return Choice(client_id=visit.query["client"], api=api)


def _name_of(choice: Choice) -> str:
    if choice.connection_id is not None:
        return visible(choice.connection_id)
    if choice.client_id is None:
        return "all clients"
    return visible(choice.client_id) or "clients without an id"


def _passes(exchange: WatchedExchange, query: Mapping[str, str]) -> bool:
    """Whether an exchange passes the filters by client and by error."""
    part = query.get("q", "").strip().lower()
    if part and not any(part in text.lower() for text in (exchange.client_id, exchange.principal)):
        return False
    wanted = query.get("error", "").strip()
    errors = exchange.facts.errors
    if wanted == _ONLY_ERRORS:
        return any(not is_step(exchange.api, each) for each in errors)
    return not wanted or wanted.upper() in errors


def _started(wire: WireWatches, choice: Choice) -> int:
    try:
        return wire.watch(choice)
    except TooManyWatches as error:
        raise PageError(503, f"{error}: close another page of the wire.") from None


def _shown(exchange: WatchedExchange) -> dict[str, Any]:
    """An exchange with its messages as indented JSON, and which errors are normal steps."""
    errors = exchange.facts.errors
    return {
        "exchange": exchange,
        "errors": [(each, is_step(exchange.api, each)) for each in errors],
        "request": _indented(exchange.request),
        "response": _indented(exchange.response),
    }


def _indented(text: str) -> str:
    return visible(json.dumps(json.loads(text), indent=2, ensure_ascii=False)) if text else ""


_SORTS = {
    "client": lambda each: each.client_id,
    "host": lambda each: each.host,
    "user": lambda each: each.principal,
    "software": lambda each: each.software,
}

ENTRIES = (Page("/wire", show), Page("/wire/watch", watch), Live("/wire/events", events))
