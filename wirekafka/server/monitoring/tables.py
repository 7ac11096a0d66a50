"""Metrics of topics that are Iceberg tables: how far the tables are, and whether they fail."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table, Value
from wirekafka.metrics.table_status import TableState
from wirekafka.server.tabling.tabling import Tabling

_STARTING = "starting"
"""The state of a table that nothing was reported about yet."""
_STATES = (_STARTING, *TableState)
_MS = 1_000
"""Of a second."""
_COLUMNS = (
    Column(
        "wirekafka_table_lag_records",
        GAUGE,
        "Records of the partitions led here that are readable and not in the table yet.",
    ),
    Column(
        "wirekafka_table_lag_seconds",
        GAUGE,
        "How long the oldest of these records has been readable here.",
    ),
    Column(
        "wirekafka_table_last_commit_timestamp_seconds",
        GAUGE,
        "When this broker's worker last committed to the table; none before it has.",
    ),
    Column(
        "wirekafka_table_rows_total",
        COUNTER,
        "Rows that this broker's worker has written to the table.",
    ),
    Column(
        "wirekafka_table_dead_letters_total",
        COUNTER,
        "Records that this broker's worker could not write to the table.",
    ),
)


class TableCollector:
    """The tables of topics with partitions led here, and the worker."""

    def __init__(self, tabling: Tabling):
        self._tabling = tabling
        self._progress = Table(["topic"], _COLUMNS)
        self._state = Table(
            ["topic", "state"],
            [Column("wirekafka_table_state", GAUGE, "1 for the present state of the table.")],
        )
        self._worker = Table(
            [],
            [
                Column("wirekafka_table_worker_up", GAUGE, "1 while the worker's process runs."),
                Column(
                    "wirekafka_table_worker_failures_total",
                    COUNTER,
                    "Processes of the worker that have ended by themselves.",
                ),
            ],
        )
        self.tables = (self._progress, self._state, self._worker)

    def collect(self) -> Iterator[None]:
        tabling = self._tabling
        self._worker.fill([((), (int(tabling.worker.is_running), tabling.worker.failures))])
        self._progress.begin()
        self._state.begin()
        for topic, partitions in tabling.led():
            found = [tabling.behind(topic, each) for each in partitions]
            report = tabling.report(topic)
            values: list[Value] = [
                sum(each.lag for each in found),
                max(each.behind_ms or 0 for each in found) / _MS,
                None if report is None or not report.commit_ms else report.commit_ms / _MS,
                0 if report is None else report.rows,
                0 if report is None else report.dead_letters,
            ]
            self._progress.put((topic.name,), values)
            present = _STARTING if report is None else report.state
            for state in _STATES:
                self._state.put((topic.name, state), (int(state == present),))
            yield
