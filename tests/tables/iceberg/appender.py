"""Processes that append to a table and die on the way.

`python -m tests.tables.iceberg.appender` imports everything once and forks processes for each line
of its input, so that a crash costs no imports. A line is JSON: a list of arguments of `_append`.
When the processes of a line have ended, it prints their exit codes.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.tables.iceberg.crash_sites import Crash
from tests.tables.iceberg.lake import a_table, rows
from wirekafka.tables.iceberg.problems import CatalogProblem, MarksMoved

PARTITIONS = 3
_IMPORTED_LATE = ("pyarrow.acero", "pyarrow.dataset", "pyiceberg.catalog.sql", "pyiceberg_core")
"""Modules that pyiceberg imports when it needs them."""


class Appenders:
    """Starts processes in this machine; gone with the context that `appenders` opens."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def run(self, *processes: dict[str, Any]) -> list[int]:
        """Run processes at the same time; returns their exit codes, negative for signals."""
        self._process.stdin.write(json.dumps(processes) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def appenders() -> Iterator[Appenders]:
    command = [sys.executable, "-m", "tests.tables.iceberg.appender"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Appenders(process)
        process.stdin.close()


def _append(
    directory: str,
    seed: float | str,
    end: int,
    spec: str = "()",
    site: str | None = None,
    occurrence: int = 1,
) -> None:
    """Append random ranges to all partitions until each has reached an offset."""
    crash = Crash(site or "", occurrence)
    if site is not None:
        crash.install()
    order = random.Random(seed)
    table = a_table(Path(directory), partition_spec=spec)
    while behind := [each for each in range(PARTITIONS) if table.marks.ends.get(each, 0) < end]:
        ranges = {}
        for partition in order.sample(behind, order.randint(1, len(behind))):
            start = table.marks.ends.get(partition, 0)
            ranges[partition] = (start, min(end, start + order.randint(1, 9)))
        added = [rows(each, range(*ranges[each])) for each in ranges]
        try:
            table.append(pa.concat_tables(added), ranges, dict.fromkeys(ranges, 0))
            crash.at("appended")
        except (MarksMoved, CatalogProblem):
            table.refresh()


def _main() -> None:
    for module in _IMPORTED_LATE:
        import_module(module)
    for line in sys.stdin:
        children = [_forked(each) for each in json.loads(line)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


def _forked(arguments: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        _append(**arguments)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _main()
