"""The page of the wire: the requests and responses of one client, while they are exchanged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from wirekafka.client.client import check
from wirekafka.console.pages.page import AT_ONCE, Event, Live, Page, PageError, PageView, Visit
from wirekafka.console.pages.tables import table
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
    parameter = "connection" if choice.connection_id is not None else "client"
    name = choice.connection_id if choice.connection_id is not None else choice.client_id
    values: dict[str, Any] = {
        "title": f"Wire of {visible(name or '') or 'clients without an id'}",
        "parameter": parameter,
        "name": name,
        "found": None,
    }
    if visit.query.get(AT_ONCE):
        number = _started(wire, choice)
        try:
            time.sleep(_STEP_S)
            values["found"] = [_shown(each) for each in wire.read(number) or ()]
        finally:
            wire.stop(number)
    return PageView("wire_watch.html", values)


def events(visit: Visit, renderer: Renderer) -> Iterator[Event | None]:
    """The exchanges of one client, each once its response is there."""
    wire = _wire(visit)
    choice = _choice(visit)
    number = _started(wire, choice)
    last = 0
    count = 0
    checked_s = time.monotonic()
    try:
        yield Event("status", "Watching. Nothing has been exchanged yet.")
        while True:
            found = wire.read(number, last)
            if found is None:
                yield Event("status", "The watch has ended.")
                return
            for each in found:
                missed = each.number - last - 1
                yield Event(
                    "row", renderer.page("wire_row.html", {"shown": _shown(each), "missed": missed})
                )
                last = each.number
            count += len(found)
            if found:
                yield Event("status", f"Watching. {count} requests so far.")
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
    if "connection" in visit.query:
        return Choice(connection_id=visit.query["connection"])
    if "client" not in visit.query:
        raise PageError(400, "Choose a client.")
    return Choice(client_id=visit.query["client"])


def _started(wire: WireWatches, choice: Choice) -> int:
    try:
        return wire.watch(choice)
    except TooManyWatches as error:
        raise PageError(503, f"{error}: close another page of the wire.") from None


def _shown(exchange: WatchedExchange) -> dict[str, Any]:
    """An exchange with its messages as indented JSON."""
    return {
        "exchange": exchange,
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
