"""A pytest plugin: `--dist loadfile` that starts long files first and survives dead test processes.

Load it with `-p tests.file_scheduling`. The files that took longest, by `tests/file_seconds.json`,
start first: the processes then end at about the same time. `--record-seconds` writes that table.
The files that use the warm JVM of a Spark session run in one process, so that one JVM gets warm.

With pytest-xdist 3.8 a run waits for ever after a test process has died: the files that it had
completed are assigned again, without tests, and a process that receives one of them reports nothing
and is assigned nothing more.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SECONDS = Path(__file__).with_name("file_seconds.json")
"""How long the tests of each file took; files that take less than ten seconds are omitted."""
_LEAST_S = 10
_PARTS = ("", "_clients", "_examples", "_faults", "_options", "_positions", "_security", "_source")
IN_WARM_SPARK = frozenset(f"compat_tests/test_spark{part}.py" for part in _PARTS)
"""The files whose tests share the JVM of a process with Spark; starting it takes 15 s of CPU."""


class FileScheduling(LoadFileScheduling):
    """Runs the tests of a file in one process, those after a test that ended it in another one."""

    def _split_scope(self, nodeid: str) -> str:
        """The name of what is assigned to a process as a whole: a file, or all files of Spark."""
        file = file_of(nodeid)
        return "Spark" if file in IN_WARM_SPARK else file

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a process that has ended; returns the test that ended it, if one did."""
        left = {}
        for file, tests in self.assigned_work.pop(node).items():
            if pending := [test for test, is_done in tests.items() if not is_done]:
                left[file] = dict.fromkeys(pending, False)
        if not left:
            return None
        file, tests = next(iter(left.items()))
        ended_by = next(iter(tests))
        del tests[ended_by]
        if not tests:
            del left[file]
        self.workqueue.update(left)
        for each in self.nodes:
            self._reschedule(each)
        return ended_by

    def _assign_work_unit(self, node: WorkerController) -> None:
        # A process that has just died accepts nothing: `remove_node` assigns its tests again.
        with suppress(OSError):
            super()._assign_work_unit(node)

    def schedule(self) -> None:
        """Assign files to all processes, a new one included.

        A process runs its last test only when it gets another one or is shut down: hence twice.
        """
        # The files come in their order of collection, which is chosen below.
        self.config.option.loadscopereorder = False
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure_node(node: WorkerController) -> None:
    """Let every scheduler go on when a process that has just died accepts nothing any more.

    The process is removed a moment later, and its tests are assigned again.
    """
    send = node.sendcommand

    def send_if_alive(name: str, **options: object) -> None:
        with suppress(OSError):
            send(name, **options)

    node.sendcommand = send_if_alive  # type: ignore[method-assign]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wirekafka")
    group.addoption("--record-seconds", action="store_true", help=f"write {SECONDS.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests by what their files took, the longest first."""
    recorded = recorded_seconds()
    items.sort(key=lambda item: -recorded.get(file_of(item.nodeid), 0))


def recorded_seconds() -> dict[str, int]:
    """The recorded seconds of files, by path."""
    found: dict[str, int] = json.loads(SECONDS.read_text())
    return found


def file_of(test: str) -> str:
    """The file of a test's id."""
    return test.partition("::")[0]


class _Record:
    """Adds up what the tests of each file take, their fixtures included."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        seconds = recorded_seconds()
        seconds |= {file: round(took) for file, took in self._seconds.items()}
        kept = {file: took for file, took in sorted(seconds.items()) if took >= _LEAST_S}
        SECONDS.write_text(json.dumps(kept, indent=2) + "\n")
