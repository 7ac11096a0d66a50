"""The page that follows the end of a topic: new records appear while it is open."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from urllib.parse import urlencode

from wirekafka.console.pages.messages import (
    CHOICES,
    chosen_partitions,
    column_values,
    cursor,
    decoder_of,
    forms_of,
    line_of,
    list_bytes,
    parsed_cursor,
    reads_of,
)
from wirekafka.console.pages.page import Event, Live, Page, PageView, Visit, slot, without_query
from wirekafka.console.pages.searching import condition_decoder, query_of
from wirekafka.console.records.columns import chosen
from wirekafka.console.records.tail import Tail
from wirekafka.console.render import Renderer

MOST_ROWS = 200
"""The rows that a page keeps."""
_MOST_TAILS = 6
_EVERY_S = 0.5
_tails = threading.BoundedSemaphore(_MOST_TAILS)


def show(visit: Visit) -> PageView:
    """The filter, and below it the new records as they come."""
    reads = reads_of(visit)
    chosen_partitions(visit.query, reads)
    forms_of(visit.query)
    decoder = condition_decoder(visit)
    query_of(visit, decoder)
    values = {
        "title": f"New messages of {reads.topic}",
        "topic": reads.topic,
        "has_conditions": decoder is not None,
        "events": f"events?{urlencode(dict(visit.query))}",
        "most": MOST_ROWS,
        "forms": CHOICES,
        **column_values(visit.query),
    }
    return PageView("live.html", values)


def events(visit: Visit, renderer: Renderer) -> Iterator[Event | None]:
    """The new records, the rate at which they are written, and where another tail would go on."""
    reads = reads_of(visit)
    partitions = chosen_partitions(visit.query, reads)
    decoder = condition_decoder(visit)
    query = query_of(visit, decoder)
    at = visit.query.get("at")
    starts = parsed_cursor(at, tuple(reads.partitions())) if at else {}
    columns = chosen(visit.query)
    with _slot():
        tail = Tail(reads, partitions, query, starts, kept_bytes=list_bytes(visit))
        matching = hidden = skipped = 0
        while True:
            began_s = time.monotonic()
            step = tail.step()
            matching += step.matching
            hidden += max(step.matching - len(step.records), 0)
            skipped += step.skipped
            shows = decoder_of(visit)
            for seen in step.records:
                values = {
                    "topic": reads.topic,
                    "line": line_of(seen, visit.query, shows),
                    "columns": columns,
                }
                yield Event("row", renderer.page("search_row.html", values))
            yield Event("at", cursor(tail.positions))
            status = {
                "matching": matching,
                "hidden": hidden,
                "skipped": skipped,
                "is_filtered": query is not None,
                "failed": step.failed,
                "rate": tail.records_per_s(),
            }
            yield Event("status", renderer.page("live_status.html", status))
            time.sleep(max(_EVERY_S - (time.monotonic() - began_s), 0.05))


def _slot() -> AbstractContextManager[None]:
    """One of a few tails at a time. Raises PageError if there is none left."""
    return slot(_tails, f"{_MOST_TAILS} pages follow topics already: close one of them.")


ENTRIES = (
    Page("/topics/{topic}/live", show, without_query(show)),
    Live("/topics/{topic}/live/events", events),
)
