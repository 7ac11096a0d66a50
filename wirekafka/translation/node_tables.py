"""The tables of the topics that a node leads: what is due, in turns, and how each table does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from pyiceberg.catalog import Catalog

from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.metrics.table_status import DeletableTable, TableState, TableStatus
from wirekafka.tables.iceberg.maintenance import Maintenance, MaintenanceSettings
from wirekafka.tables.iceberg.problems import CatalogProblem, WrongTable
from wirekafka.translation.drops import DeletableTables, drop_tables
from wirekafka.translation.messages import Assignment, TopicAssignment
from wirekafka.translation.problems import TablePaused, TableProblem, TableRetrying
from wirekafka.translation.settings import TableSettings
from wirekafka.translation.topic_files import TopicFiles
from wirekafka.translation.translator import Progress, TopicTranslator

logger = logging.getLogger(__name__)

_FULL_RECORDS = 1 << 18
"""So many records are committed at once, however new they are."""
_CHECK_EVERY_S = 30.0
"""How often a table without waiting records is looked at: somebody may have set it aside."""
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0


_Key: TypeAlias = tuple[str, str]
"""The name and the id of a topic."""


@dataclass(slots=True)
class _Table:
    assignment: TopicAssignment
    status: TableStatus
    translator: TopicTranslator | None = None
    target_lag_s: float = 60.0
    waiting_since_s: float | None = None
    """Since when records wait that the table does not have."""
    due_s: float = 0.0
    """The earliest next turn: later after a problem."""
    retries: int = 0
    maintenance: dict[str, Maintenance] = field(default_factory=dict)
    """By the name of the table or of its dead letters' table."""
    checked_s: float = 0.0
    """When the table's marks were read last."""
    last_turn: int = 0
    """The number of its last turn among the turns of all tables."""


class NodeTables:
    """Translates in turns: each turn is one commit of the table that is due first."""

    def __init__(
        self,
        *,
        files: TopicFiles,
        committed_ends: dict[tuple[str, int], int],
        catalog: Callable[[], Catalog],
        namespace: str,
        registry: SchemaRegistry | None,
        report: Callable[[TableStatus | DeletableTable], None],
        now_s: Callable[[], float],
        now_ms: Callable[[], int],
    ):
        """`committed_ends` is what `files` reads up to: it is written here."""
        self._files = files
        self._committed_ends = committed_ends
        self._catalog = catalog
        self._namespace = namespace
        self._registry = registry
        self._report = report
        self._now_s = now_s
        self._now_ms = now_ms
        self._tables: dict[_Key, _Table] = {}
        self._turns = 0
        self._deletable = DeletableTables(catalog, namespace)
        self._deletable_from_s = 0.0
        """When tables are looked at again whose topics may be gone, after a problem."""
        self._drops: list[_Key] = []
        """Deleted topics whose tables are to be dropped with them."""

    def statuses(self) -> Iterator[TableStatus]:
        """How each table does."""
        return (table.status for table in self._tables.values())

    def assign(self, assignment: Assignment) -> bool:
        """Take over what the node leads now; returns whether these are other topics than before.

        A deleted topic that is unknown here was another process's, which has ended meanwhile.
        """
        present = {(each.topic, each.topic_id): each for each in assignment.topics}
        self._drops += [
            key
            for key in assignment.deleted
            if (gone := self._tables.get(key)) is None or gone.assignment.options["delete"]
        ]
        are_others = self._tables.keys() != present.keys()
        for key in self._tables.keys() - present.keys():
            del self._tables[key]
        self._committed_ends.clear()
        for key, each in present.items():
            for partition, log in each.partitions.items():
                self._committed_ends[each.topic, partition] = log.end_offset
            table = self._tables.get(key)
            if table is None:
                status = TableStatus(topic=each.topic, topic_id=each.topic_id)
                table = self._tables[key] = _Table(each, status)
            elif table.assignment.options != each.options:
                table.translator = None  # What paused it may be mended.
                table.due_s, table.retries = 0.0, 0
            table.assignment = each
            self._note_waiting(table)
        return are_others

    def next_due_s(self) -> float | None:
        """When the next turn is due; None if nothing waits."""
        if self._drops:
            return self._now_s()
        due_s = [self._due_s(table) for table in self._tables.values()]
        if not self._deletable.is_done:
            due_s.append(self._deletable_from_s)
        return min(due_s, default=None)

    def turn(self) -> Progress | None:
        """Translate a table that is due, or drop one; None if none is due.

        The turn is for the table that had none for the longest time: a backlog of one topic keeps
        no other table from its turn.
        """
        if self._drops:
            self._drop(*self._drops.pop())
            return Progress()
        now_s = self._now_s()
        due = [table for table in self._tables.values() if self._due_s(table) <= now_s]
        if not due:
            return self._looked_for_deletable() or self._maintained()
        table = min(due, key=lambda each: each.last_turn)
        self._turns += 1
        table.last_turn = self._turns
        try:
            progress = self._translate(table)
        except TableProblem as problem:
            self._note(table, problem)
            return Progress()
        except Exception as error:  # An error of the code keeps no other table from its turn.
            logger.exception("The table of %s failed", table.status.topic)
            table.translator = None
            self._note(table, TableRetrying(f"{type(error).__name__}: {error}"))
            return Progress()
        self._note_progress(table, progress)
        return progress

    def _looked_for_deletable(self) -> Progress | None:
        """Look at one table that another process may have left over; None if all are known."""
        if self._deletable.is_done or self._now_s() < self._deletable_from_s:
            return None
        try:
            found = self._deletable.next()
        except (CatalogProblem, WrongTable, TableProblem) as error:
            logger.warning("Tables of deleted topics are looked for again: %s", error)
            self._deletable_from_s = self._now_s() + _LONGEST_RETRY_S
        except Exception:  # An error of the code, which keeps no table from its turn.
            logger.exception("Tables of deleted topics are looked for again")
            self._deletable_from_s = self._now_s() + _LONGEST_RETRY_S
        else:
            if found is not None:
                self._report(found)
        return Progress()

    def _maintained(self) -> Progress | None:
        """Take one step of maintenance; None if none is due.

        The leader of partition 0 maintains: two nodes would only hinder each other.
        """
        now_ms = self._now_ms()
        for table in self._tables.values():
            if table.translator is None or 0 not in table.assignment.partitions:
                continue
            for opened in table.translator.tables:
                name = opened.identifier[-1]
                if name not in table.maintenance:
                    table.maintenance[name] = Maintenance(MaintenanceSettings(), now_ms)
                if table.maintenance[name].is_due(now_ms):
                    try:
                        table.maintenance[name].step(opened, now_ms)
                    except (CatalogProblem, WrongTable) as error:
                        logger.warning("The maintenance of %s is tried again: %s", name, error)
                    except Exception:  # An error of the code, which keeps no table from its turn.
                        logger.exception("The maintenance of %s failed", name)
                    return Progress()
        return None

    def _drop(self, topic: str, topic_id: str) -> None:
        """Drop the tables of a deleted topic. If that fails, they stay until the next start."""
        try:
            drop_tables(self._catalog(), self._namespace, topic, topic_id)
        except (CatalogProblem, WrongTable, TableProblem) as error:
            logger.error("The table of the deleted topic %s is left over: %s", topic, error)
        except Exception:  # An error of the code, which keeps no other table from its turn.
            logger.exception("The table of the deleted topic %s is left over", topic)

    def _due_s(self, table: _Table) -> float:
        if table.translator is None:
            return table.due_s
        if table.waiting_since_s is None:
            return max(table.checked_s + _CHECK_EVERY_S, table.due_s)
        waiting = self._waiting_records(table)
        lag_s = 0.0 if waiting >= _FULL_RECORDS else table.target_lag_s
        return max(table.waiting_since_s + lag_s, table.due_s)

    def _translate(self, table: _Table) -> Progress:
        if table.translator is None:
            try:
                settings = TableSettings.of(table.assignment.options)
            except ValueError as error:
                raise TablePaused(str(error)) from None
            translator = TopicTranslator(
                table.assignment.topic,
                table.assignment.topic_id,
                settings,
                files=self._files,
                catalog=self._catalog(),
                namespace=self._namespace,
                registry=self._registry,
                deletion_mark=table.assignment.deletion_mark,
                now_s=self._now_s,
            )
            translator.open()
            table.translator, table.target_lag_s = translator, settings.target_lag_ms / 1_000
            return Progress()
        if table.waiting_since_s is None:
            table.translator.check()
            return Progress()
        return table.translator.translate(table.assignment.partitions)

    def _note_progress(self, table: _Table, progress: Progress) -> None:
        assert table.translator is not None
        status = table.status
        status.state, status.error = TableState.RUNNING, None
        status.ends = dict(table.translator.marks.ends)
        status.rows += progress.rows
        status.dead_letters += progress.dead_letters
        if progress.size_bytes:
            status.commit_ms = self._now_ms()
        table.retries, table.due_s, table.checked_s = 0, 0.0, self._now_s()
        if not progress.has_more:
            table.waiting_since_s = None
        self._note_waiting(table)
        self._report(status)

    def _note(self, table: _Table, problem: TableProblem) -> None:
        """A paused table is tried again, too: rarely, as somebody may have mended it."""
        status = table.status
        state = TableState.PAUSED if isinstance(problem, TablePaused) else TableState.RETRYING
        changed = (status.state, status.error) != (state, str(problem))
        status.state, status.error = state, str(problem)
        wait_s = min(_FIRST_RETRY_S * 2**table.retries, _LONGEST_RETRY_S)
        table.retries = min(table.retries + 1, 10)
        table.due_s = self._now_s() + (_LONGEST_RETRY_S if state == TableState.PAUSED else wait_s)
        if changed:
            self._report(status)

    def _note_waiting(self, table: _Table) -> None:
        if self._waiting_records(table):
            if table.waiting_since_s is None:
                table.waiting_since_s = self._now_s()
        else:
            table.waiting_since_s = None

    def _waiting_records(self, table: _Table) -> int:
        if table.translator is None:
            return 0
        ends = table.translator.marks.ends
        return sum(
            max(log.end_offset - ends.get(partition, log.start_offset), 0)
            for partition, log in table.assignment.partitions.items()
        )
