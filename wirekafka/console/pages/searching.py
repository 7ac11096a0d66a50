"""The page that searches a topic, with results while it goes on; or in steps, without script."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from urllib.parse import urlencode

from wirekafka.console.pages.messages import (
    chosen_partitions,
    column_values,
    cursor,
    decoder_of,
    export_slot,
    line_of,
    list_bytes,
    parsed_cursor,
    reads_of,
    starts_at,
    time_of,
    writer_of,
)
from wirekafka.console.pages.page import (
    AT_ONCE,
    Download,
    Event,
    Live,
    Page,
    PageError,
    PageView,
    Visit,
    slot,
    without_query,
)
from wirekafka.console.records.columns import chosen
from wirekafka.console.records.conditions import BadCondition, conditions_of
from wirekafka.console.records.record_files import KEPT_BYTES
from wirekafka.console.records.search import (
    MOST_MATCHES,
    AllQueries,
    BadQuery,
    ConditionQuery,
    FieldQuery,
    Query,
    Search,
    SearchProgress,
    SearchWish,
    TextQuery,
)
from wirekafka.console.render import Renderer
from wirekafka.console.topic_reads import Positions, Seen, TopicReads
from wirekafka.console.value_decoder import ValueDecoder

_MOST_SEARCHES = 4
_STEP_S = 5.0
_EXPORT_S = 20.0
_slots = threading.BoundedSemaphore(_MOST_SEARCHES)


def show(visit: Visit) -> PageView:
    """The form, and below it the results: live, or by `plain` one step of a few seconds."""
    reads = reads_of(visit)
    decoder = condition_decoder(visit)
    query = query_of(visit, decoder)
    values = {
        "title": f"Search {reads.topic}",
        "topic": reads.topic,
        "is_asked": query is not None,
        "has_conditions": decoder is not None,
        "undecoded": 0,
        "events": f"events?{urlencode(dict(visit.query))}",
        "most": MOST_MATCHES,
        "progress": None,
        "lines": [],
        "following": "",
        **column_values(visit.query),
    }
    if query is not None and visit.query.get(AT_ONCE):
        values |= _step(visit, reads, query, decoder)
    return PageView("search.html", values)


def events(visit: Visit, renderer: Renderer) -> Iterator[Event | None]:
    """The results of a search, and its progress."""
    reads = reads_of(visit)
    decoder = condition_decoder(visit)
    query = query_of(visit, decoder)
    if query is None:
        raise PageError(400, "Enter what to search for.")
    with _slot():
        search = Search(reads, query, _wish(visit, reads))
        found = 0
        frame = {"columns": chosen(visit.query)}
        for progress in search.run():
            shows = decoder_of(visit)
            for seen in progress.matches:
                line = line_of(seen, visit.query, shows)
                yield Event(
                    "row",
                    renderer.page("search_row.html", {"topic": reads.topic, "line": line, **frame}),
                )
            found += len(progress.matches)
            values = {
                "progress": progress,
                "found": found,
                "most": MOST_MATCHES,
                "undecoded": 0 if decoder is None else decoder.failed,
            }
            yield Event("status", renderer.page("search_status.html", values))


def export(visit: Visit) -> Download:
    """What a search of a few seconds finds, as a file, whose name says whether it is all."""
    write = writer_of(visit)
    reads = reads_of(visit)
    decoder = condition_decoder(visit)
    query = query_of(visit, decoder)
    if query is None:
        raise PageError(400, "Enter what to search for.")
    with export_slot(), _slot():
        wish = replace(_wish(visit, reads), kept_bytes=KEPT_BYTES)
        found, last = _searched(Search(reads, query, wish), _EXPORT_S)
    data = write(reads.topic, found, decoder_of(visit))
    part = "" if last.end == "complete" and not last.failed else "-incomplete"
    return Download(f"{reads.topic}-search{part}.{visit.query['format']}", data)


def _searched(search: Search, limit_s: float) -> tuple[list[Seen], SearchProgress]:
    """What a search finds within a time, and its last progress."""
    until_s = time.monotonic() + limit_s
    found: list[Seen] = []
    last: SearchProgress | None = None
    for last in search.run():
        found += last.matches
        if time.monotonic() > until_s:
            search.cancel()
    assert last is not None, "a search reports at least once"
    return found, last


def _step(
    visit: Visit, reads: TopicReads, query: Query, decoder: ValueDecoder | None
) -> dict[str, object]:
    """Search for a few seconds; another request continues."""
    search = Search(reads, query, _wish(visit, reads))
    with _slot():
        found, last = _searched(search, _STEP_S)
    shows = decoder_of(visit)
    return {
        "progress": last,
        "undecoded": 0 if decoder is None else decoder.failed,
        "lines": [line_of(seen, visit.query, shows) for seen in found],
        "following": "" if last.end == "complete" else cursor(search.positions),
    }


def condition_decoder(visit: Visit) -> ValueDecoder | None:
    """The decoder of what conditions compare, for any time; None without a registry."""
    return None if visit.registry is None else ValueDecoder(visit.registry)


def query_of(visit: Visit, decoder: ValueDecoder | None) -> Query | None:
    """The query of `text`, `field` and `where`; None if none was entered. Raises PageError."""
    text = visit.query.get("text", "")
    path = visit.query.get("field", "").strip()
    where = visit.query.get("where", "").strip()
    queries: list[Query] = []
    try:
        if path:
            queries.append(FieldQuery(path, text))
        elif text:
            queries.append(TextQuery(text, ignores_case=bool(visit.query.get("any_case"))))
        if where and decoder is not None:
            queries.append(ConditionQuery(conditions_of(where), decoder))
    except (BadQuery, BadCondition) as error:
        reason = str(error)
        raise PageError(400, f"{reason[:1].upper()}{reason[1:]}.") from None
    return AllQueries(queries) if len(queries) > 1 else next(iter(queries), None)


def _wish(visit: Visit, reads: TopicReads) -> SearchWish:
    partitions = chosen_partitions(visit.query, reads) or tuple(reads.partitions())
    starts: Positions = {}
    if visit.query.get("at"):
        starts = parsed_cursor(visit.query["at"], partitions)
    elif visit.query.get("time", "").strip():
        starts = starts_at(reads, partitions, time_of(visit.query["time"]))
    return SearchWish(partitions, starts, kept_bytes=list_bytes(visit))


def _slot() -> AbstractContextManager[None]:
    """One of a few searches at a time. Raises PageError if there is none left."""
    refusal = f"{_MOST_SEARCHES} searches are under way: wait until one has ended."
    return slot(_slots, refusal)


ENTRIES = (
    Page("/topics/{topic}/search", show, without_query(show)),
    Page("/topics/{topic}/search/export", export),
    Live("/topics/{topic}/search/events", events),
)
