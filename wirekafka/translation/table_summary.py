"""What the catalog and the workers' files say of each topic's table: size, marks, state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from wirekafka.metrics.table_status import TableState, TableStatus
from wirekafka.tables.iceberg.layout import (
    DEAD_LETTER_SUFFIX,
    KEY_VALUE_COLUMNS,
    TOPIC_ID_PROPERTY,
    dead_letter_table,
)
from wirekafka.tables.iceberg.marks import UnreadableMarks, marked_snapshot, marks_in
from wirekafka.tables.iceberg.problems import cause_of, passing_problems
from wirekafka.translation.status_files import FOLDER

_OLDER = re.compile(r"~old-\d+\Z")
_NODE = re.compile(r"node-\d+\.json\Z")
_LARGEST_REPORT_BYTES = 16 << 20
_URGENCY = {TableState.RUNNING: 0, TableState.RETRYING: 1, TableState.PAUSED: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """One table as its newest metadata have it."""

    topic: str
    topic_id: str | None = None
    mode: str = ""
    """`key_value`, or `typed` for columns of schemas."""
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    snapshots: int = 0
    commit_ms: int | None = None
    """The time of the newest commit with marks."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Up to where the table has each partition."""
    dead_letters: int = 0
    problem: str | None = None
    """Why the table cannot be read."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the worker of a node wrote of its tables last."""

    node_id: int
    written_ms: int
    tables: Mapping[str, TableStatus]


@dataclass(frozen=True, slots=True)
class WorkerState:
    """How the workers do with one table: the worst of their states."""

    state: TableState
    error: str | None
    node_id: int
    written_ms: int


def topic_tables(catalog: Catalog, namespace: str) -> list[str]:
    """The names of the topics that have tables. Raises CatalogProblem."""
    with passing_problems(f"catalog {catalog.name}"):
        try:
            names = [identifier[-1] for identifier in catalog.list_tables(namespace)]
        except NoSuchNamespaceError:
            return []
    return sorted(name for name in names if is_topic_table(name))


def is_topic_table(name: str) -> bool:
    """Whether a name belongs to a topic's own table: neither dead letters nor set aside."""
    return not name.endswith(DEAD_LETTER_SUFFIX) and _OLDER.search(name) is None


def summary_of(catalog: Catalog, namespace: str, topic: str) -> TableSummary | None:
    """The summary of a topic's table; None if there is no table. Raises CatalogProblem."""
    with passing_problems(f"{namespace}.{topic}"):
        try:
            table = catalog.load_table((namespace, topic))
        except NoSuchTableError:
            return None
        try:
            letters = catalog.load_table((namespace, dead_letter_table(topic)))
        except NoSuchTableError:
            letters = None
    try:
        return _summary(topic, table, letters)
    except UnreadableMarks as error:
        return TableSummary(topic=topic, problem=str(error))


def _summary(topic: str, table: Table, letters: Table | None) -> TableSummary:
    columns = sorted(each.name for each in table.schema().fields)
    marked = marked_snapshot(table.metadata)
    marks = None if marked is None else marks_in(marked)
    return TableSummary(
        topic=topic,
        topic_id=table.properties.get(TOPIC_ID_PROPERTY) if marks is None else marks.topic_id,
        mode="key_value" if columns == sorted(KEY_VALUE_COLUMNS.names) else "typed",
        rows=_total(table, "records"),
        files=_total(table, "data-files"),
        size_bytes=_total(table, "files-size"),
        snapshots=len(table.metadata.snapshots),
        commit_ms=None if marked is None else marked.timestamp_ms,
        ends={} if marks is None else dict(marks.ends),
        dead_letters=0 if letters is None else _total(letters, "records"),
    )


def _total(table: Table, name: str) -> int:
    """A total of the newest snapshot's summary."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    text = snapshot.summary.additional_properties.get(f"total-{name}", "0")
    return int(text) if text.isdigit() else 0


def node_reports(catalog: Catalog) -> list[NodeReport]:
    """The files that workers have written beside the tables, except files that cannot be read.
    Raises CatalogProblem.
    """
    url = catalog.properties.get("warehouse", "")
    io = load_file_io(catalog.properties, url)
    if not url or not isinstance(io, PyArrowFileIO):
        return []
    folder = f"{url.rstrip('/')}/{FOLDER}"
    scheme, netloc, path = PyArrowFileIO.parse_location(folder, io.properties)
    with passing_problems(folder):
        files = io.fs_by_scheme(scheme, netloc)
        infos = files.get_file_info(FileSelector(path, allow_not_found=True))
        found = []
        for info in infos:
            if _NODE.match(info.base_name) and (info.size or 0) <= _LARGEST_REPORT_BYTES:
                with files.open_input_stream(info.path) as opened:
                    found.append(_report(opened.read()))
    return [each for each in found if each is not None]


def _report(content: bytes) -> NodeReport | None:
    try:
        fields = json.loads(content)
        tables = [TableStatus.from_json(each) for each in fields["tables"]]
        return NodeReport(
            int(fields["node"]), int(fields["written_ms"]), {each.topic: each for each in tables}
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def worker_state(reports: Iterable[NodeReport], summary: TableSummary) -> WorkerState | None:
    """The worst state that workers report of a table; None if no worker has the topic."""
    found = [
        WorkerState(status.state, status.error, report.node_id, report.written_ms)
        for report in reports
        if (status := report.tables.get(summary.topic)) is not None
        and summary.topic_id in (None, status.topic_id)
    ]
    return max(found, key=lambda each: (_URGENCY[each.state], each.written_ms), default=None)


def unreadable(topic: str, error: BaseException) -> TableSummary:
    """The summary of a table that cannot be read."""
    return TableSummary(topic=topic, problem=cause_of(error))
