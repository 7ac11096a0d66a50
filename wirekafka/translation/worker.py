"""The worker process of a node's tables: see `messages` for what it reads and writes.

It is a process, because decoding records and writing Parquet holds the interpreter's lock, which
would delay clients.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import BinaryIO

from pyiceberg.catalog import Catalog
from pyiceberg.io import load_file_io

from wirekafka.client.registry_settings import tls_of
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.own import RegistryAccess
from wirekafka.metrics.table_status import DeletableTable, TableStatus
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.problems import CatalogProblem
from wirekafka.translation.messages import Assignment, WorkerSetUp
from wirekafka.translation.node_tables import NodeTables
from wirekafka.translation.problems import TablePaused, TableRetrying
from wirekafka.translation.status_files import write_statuses
from wirekafka.translation.topic_files import TopicFiles
from wirekafka.translation.translator import Progress

logger = logging.getLogger(__name__)

_NICENESS = 10
"""On a busy machine the broker gets the processor first."""
_END_S = 30.0
"""How long the last turn may go on without the broker, as with a catalog that never answers."""
_LONGEST_TURN_S = 900
_WATCH_S = 1.0
_STATUS_FILE_S = 2.0
"""How often the file of statuses is written at most."""


class Worker:
    """Translates what the lines of its input assign, until the input ends."""

    def __init__(self, set_up: WorkerSetUp):
        self._set_up = set_up
        self._catalog: Catalog | None = None
        committed_ends: dict[tuple[str, int], int] = {}
        self._tables = NodeTables(
            files=TopicFiles(set_up.directories, committed_ends, tier=set_up.tier),
            committed_ends=committed_ends,
            catalog=self._opened_catalog,
            namespace=set_up.namespace,
            registry=_registry(set_up.registry),
            report=self._report,
            now_s=time.monotonic,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._received: list[bytes | None] = []
        self._has_news = False
        self._status_from_s = 0.0
        self._paced_until_s = 0.0
        self._turn_began_s: float | None = None

    def run(self, source: BinaryIO) -> None:
        """Work until the source of assignments ends."""
        threading.Thread(target=self._read, args=(source,), daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        while True:
            assignment = self._next_assignment()
            if assignment is None:
                return
            if self._tables.assign(assignment):
                self._has_news = True
            self._work_until_news()

    def _read(self, source: BinaryIO) -> None:
        for line in source:
            self._lines.put(line)
        self._lines.put(None)
        time.sleep(_END_S)
        os._exit(1)  # A commit that is cut off is looked up by the next process.

    def _watch(self) -> None:
        """End the process, which the broker starts again, if a turn never ends.

        A catalog or a store that accepts a request and never answers would hold up all tables.
        """
        while True:
            time.sleep(_WATCH_S)
            began_s = self._turn_began_s
            if began_s is not None and time.monotonic() - began_s > _LONGEST_TURN_S:
                logger.error("A table's turn has taken %d s: the worker ends", _LONGEST_TURN_S)
                os._exit(1)

    def _turn(self) -> Progress | None:
        self._turn_began_s = time.monotonic()
        try:
            return self._tables.turn()
        finally:
            self._turn_began_s = None

    def _next_assignment(self) -> Assignment | None:
        """The newest assignment, once there is one; None at the end of the input."""
        if not self._received:
            self._receive(None)
        lines, self._received = self._received, []
        if None in lines:
            return None
        assignments = [Assignment.decode(line) for line in lines if line is not None]
        deleted = tuple(pair for each in assignments for pair in each.deleted)
        return Assignment(assignments[-1].topics, deleted)

    def _receive(self, timeout_s: float | None) -> None:
        """Wait for a line, and take all lines that are there."""
        with suppress(queue.Empty):
            self._received.append(self._lines.get(timeout=timeout_s))
            while True:
                self._received.append(self._lines.get_nowait())

    def _work_until_news(self) -> None:
        """Take turns, and wait for the next one, until a line is there."""
        while not self._received:
            now_s = time.monotonic()
            wait_s = max(self._paced_until_s - now_s, 0.0)
            if not wait_s:
                progress = self._turn()
                if progress is not None:
                    self._pace(now_s, progress.size_bytes)
                    self._receive(0)
                    continue
                due_s = self._tables.next_due_s()
                wait_s = _STATUS_FILE_S if due_s is None else max(due_s - now_s, 0.0)
            self._write_statuses()
            self._receive(min(wait_s, _STATUS_FILE_S))

    def _pace(self, from_s: float, size_bytes: int) -> None:
        if self._set_up.rate_bytes:
            self._paced_until_s = from_s + size_bytes / self._set_up.rate_bytes

    def _opened_catalog(self) -> Catalog:
        if self._catalog is None:
            try:
                self._catalog = open_catalog(
                    self._set_up.url,
                    name=self._set_up.catalog_name,
                    properties=self._set_up.catalog_properties,
                )
            except CatalogProblem as error:
                raise TableRetrying(str(error)) from error
            except ValueError as error:
                raise TablePaused(str(error)) from error
        return self._catalog

    def _report(self, report: TableStatus | DeletableTable) -> None:
        self._has_news = True
        sys.stdout.write(json.dumps(report.to_json()) + "\n")
        sys.stdout.flush()

    def _write_statuses(self) -> None:
        """Write the file of statuses if one has changed; its failure stops no table."""
        now_s = time.monotonic()
        if not self._has_news or now_s < self._status_from_s or self._catalog is None:
            return
        self._has_news, self._status_from_s = False, now_s + _STATUS_FILE_S
        properties = self._catalog.properties
        url = properties["warehouse"]
        try:
            io = load_file_io(properties, url)
            now_ms = time.time_ns() // 1_000_000
            write_statuses(io, url, self._set_up.node_id, now_ms, self._tables.statuses())
        except Exception as error:  # Any store's own.
            logger.warning("The status of the tables cannot be written to %s: %s", url, error)


def _registry(access: RegistryAccess | None) -> SchemaRegistry | None:
    if access is None:
        return None
    return SchemaRegistry(
        access.url,
        user=access.user,
        password=access.password,
        ca_file=access.certificate,
        tls=tls_of(access.ssl, access.url),
    )


def main() -> None:
    """Run the worker that standard input describes."""
    logging.basicConfig(level=logging.WARNING)
    os.nice(_NICENESS)
    # Not sys.stdin: a thread that reads it keeps an interpreter that fails from ending.
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    first = source.readline()
    if first:
        Worker(WorkerSetUp.decode(first)).run(source)


if __name__ == "__main__":
    main()
