"""The page of mirrors: the topics that a broker copies from another cluster, and their lag."""

from __future__ import annotations

from typing import Any

from wirekafka.console.pages.page import Page, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.source import Known, MirrorReport, Unknown

LINK = ("Mirror", "/mirror", "m")

_NOT_PERMITTED = Unknown("Your user may not see this: it needs DESCRIBE on the cluster.")


def show(visit: Visit) -> PageView:
    """The mirror as a whole, its partitions, and the topics that are not copied."""
    report = _permitted(visit)
    values: dict[str, Any] = {"title": "Mirror", "report": report}
    if not isinstance(report, Unknown):
        rows = report.rows
        values |= {
            "failing": sum(row["state"] in _FAILING for row in rows),
            "skipped": sum(row["skipped"] or 0 for row in rows),
            "partitions": table(
                rows, visit.query, name=lambda row: str(row["topic"]), sorts=_SORTS
            ),
        }
    return PageView("mirror.html", values)


def _permitted(visit: Visit) -> Known[MirrorReport]:
    snapshot = visit.source.snapshot()
    if isinstance(snapshot, Unknown):
        return snapshot
    return visit.source.mirror() if snapshot.summary.may_see_cluster else _NOT_PERMITTED


_FAILING = ("waiting", "stopped", "refused")
_SORTS = {
    "topic": lambda row: (row["topic"], -1 if row["partition"] is None else row["partition"]),
    "state": lambda row: (row["state"], row["topic"]),
    "lag": lambda row: row["lag"],
    "skipped": lambda row: row["skipped"],
}

ENTRIES = (Page("/mirror", show),)
