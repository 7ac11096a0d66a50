"""The page of Spark queries: the last batch of each, and how far its source is behind."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.render import now_ms
from wirekafka.console.source import GroupLag, Known, Unknown
from wirekafka.console.spark_queries import QueryProgress, query_progress, sink_markers

LINK = ("Spark", "/queries", "q")

_NOT_PERMITTED = Unknown("How far sources are behind needs DESCRIBE on the cluster.")


def show(visit: Visit) -> PageView:
    """The list of queries."""
    markers, problems = sink_markers(visit.client)
    readers = _readers(visit)
    known = () if isinstance(readers, Unknown) else readers
    values = {
        "title": "Spark queries",
        "problems": problems,
        "readers": readers,
        "queries": table(
            query_progress(markers, known),
            visit.query,
            name=_searched,
            sorts=_SORTS,
            default="-lag",
        ),
        "now_ms": now_ms(),
    }
    return PageView("queries.html", values)


def _readers(visit: Visit) -> Known[Sequence[GroupLag]]:
    insight = visit.source.insight()
    if isinstance(insight, Unknown):
        return Unknown(f"How far sources are behind: {insight.reason}")
    snapshot = visit.source.snapshot()
    if isinstance(snapshot, Unknown):
        return snapshot
    return insight.readers if snapshot.summary.may_see_cluster else _NOT_PERMITTED


def _searched(query: QueryProgress) -> str:
    """The text in which the filter looks for words."""
    names = [query.name, *(each.name for each in query.sources)]
    if query.marker is not None:
        names += [query.marker.query, query.marker.checkpoint or ""]
    return " ".join(names)


_SORTS = {
    "name": lambda each: each.name,
    "lag": lambda each: each.lag,
    "behind": lambda each: each.behind_ms,
    "batch": lambda each: None if each.marker is None else each.marker.batch,
    "records": lambda each: None if each.marker is None else each.marker.records,
    "committed": lambda each: None if each.marker is None else each.marker.at_ms,
}

ENTRIES = (Page("/queries", show),)
