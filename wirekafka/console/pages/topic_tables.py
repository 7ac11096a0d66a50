"""The pages of topic tables: lag, state and size of each, and the newest rows of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wirekafka.client.client import CliError
from wirekafka.console.pages.page import Page, PageError, PageView, Visit
from wirekafka.console.pages.tables import table
from wirekafka.console.render import now_ms
from wirekafka.console.source import Known, Unknown
from wirekafka.console.table_reads import ShownRow, TableReads, shown_rows

if TYPE_CHECKING:
    from wirekafka.translation.table_lag import TableLag, TopicAccess
    from wirekafka.translation.table_summary import NodeReport, TableSummary, WorkerState

LINK = ("Tables", "/tables", "i")

_PAUSED, _RETRYING = "paused", "retrying"
_STATES = {_PAUSED: 0, _RETRYING: 1}
_MOST_AGES = 20
"""Tables of a page that are behind and whose oldest record is looked at."""
_STATE_ONLY = "state"
"""The parameter by which a page that is open asks for its figures, without rows."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table in the list, before its metadata are read."""

    topic: str
    state: str
    """As the workers report it; empty where none does."""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table with what is known of it; None is not known."""

    summary: TableSummary
    worker: WorkerState | None
    lag: TableLag | None
    is_of_topic: bool
    """Whether the topic of the table's id is there."""

    @property
    def error(self) -> str | None:
        """What is wrong with the table."""
        if self.summary.problem is not None:
            return self.summary.problem
        return None if self.worker is None else self.worker.error


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """The newest rows of a table in words."""

    columns: Sequence[str]
    left_out: int
    rows: Sequence[ShownRow]
    is_complete: bool


def show(visit: Visit) -> PageView:
    """The tables of all topics that the visitor may describe."""
    reads = _reads_of(visit)
    reports = reads.reports()
    access = _access(visit, reads.topics())
    names = [TableName(topic, _state(reports, topic)) for topic in access]
    tables = table(
        names,
        visit.query,
        name=lambda each: each.topic,
        sorts={
            "name": lambda each: each.topic,
            "state": lambda each: (_STATES.get(each.state, 2), each.topic),
        },
    )
    summaries = [_summary(reads, each.topic) for each in tables.rows]
    present = [each for each in summaries if each is not None]
    values = {
        "title": "Tables",
        "tables": tables,
        "lines": _lines(visit, present, reports, access),
        "paused": sum(each.state == _PAUSED for each in names),
        "retrying": sum(each.state == _RETRYING for each in names),
        "url": reads.place.url,
        "now_ms": now_ms(),
    }
    return PageView("tables.html", values)


def one(visit: Visit) -> PageView:
    """One table: its figures by partition, its newest rows, and its newest dead letters."""
    reads = _reads_of(visit)
    topic = visit.path["topic"]
    access = _access(visit, [topic])
    summary = _summary(reads, topic) if topic in access else None
    if summary is None:
        raise PageError(404, f"There is no table of a topic {topic}.")
    [line] = _lines(visit, [summary], reads.reports(), access)
    has_rows = visit.query.get("show") != _STATE_ONLY
    may_read = access[topic].may_read
    rows: Known[ShownPreview] | None = None
    letters: Known[ShownPreview] | None = None
    if has_rows and may_read:
        rows = _preview(reads, topic)
        letters = _preview(reads, f"{topic}~dlq") if summary.dead_letters else None
    values = {
        "title": f"Table {topic}",
        "topic": topic,
        "line": line,
        "partitions": () if line.lag is None else line.lag.partitions,
        "may_read": may_read,
        "rows": rows,
        "letters": letters,
        "state_path": f"?show={_STATE_ONLY}",
        "now_ms": now_ms(),
    }
    return PageView("table.html", values)


def _reads_of(visit: Visit) -> TableReads:
    assert visit.tables is not None, "served only with tables"
    return visit.tables


def _access(visit: Visit, topics: Iterable[str]) -> dict[str, TopicAccess]:
    from wirekafka.translation.table_lag import topic_access

    return topic_access(visit.client, topics)


def _state(reports: Iterable[NodeReport], topic: str) -> str:
    found = [str(each.tables[topic].state) for each in reports if topic in each.tables]
    return min(found, key=lambda each: _STATES.get(each, 2), default="")


def _summary(reads: TableReads, topic: str) -> TableSummary | None:
    """A table's summary, which may be that it cannot be read."""
    from wirekafka.translation.table_summary import TableSummary

    try:
        return reads.summary(topic)
    except CliError as error:
        return TableSummary(topic=topic, problem=str(error))


def _lines(
    visit: Visit,
    summaries: Sequence[TableSummary],
    reports: Sequence[NodeReport],
    access: Mapping[str, TopicAccess],
) -> list[TableLine]:
    from wirekafka.translation.table_lag import TableLag, lags_of, with_age
    from wirekafka.translation.table_summary import worker_state

    current = {each.topic for each in summaries if _is_current(each, access[each.topic])}
    partitions = lags_of(
        visit.client,
        {topic: access[topic].partitions for topic in current},
        {each.topic: each.ends for each in summaries},
    )
    lags: dict[str, TableLag] = {}
    ages = 0
    for topic, found in sorted(partitions.items()):
        is_behind = any(each.records for each in found)
        if is_behind and (not access[topic].may_read or ages >= _MOST_AGES):
            lags[topic] = TableLag(found, None)
            continue
        ages += is_behind
        lags[topic] = with_age(visit.client, topic, found, now_ms())
    return [
        TableLine(each, worker_state(reports, each), lags.get(each.topic), each.topic in current)
        for each in summaries
    ]


def _is_current(summary: TableSummary, access: TopicAccess) -> bool:
    return access.topic_id is not None and summary.topic_id in (None, access.topic_id)


def _preview(reads: TableReads, name: str) -> Known[ShownPreview] | None:
    try:
        found = reads.preview(name)
    except CliError as error:
        return Unknown(str(error))
    if found is None:
        return None
    rows = shown_rows(found)
    return ShownPreview(found.columns, found.left_out, rows, found.is_complete)


ENTRIES: tuple[Any, ...] = (Page("/tables", show), Page("/tables/{topic}", one))
