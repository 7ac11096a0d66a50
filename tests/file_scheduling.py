"""A pytest plugin: `--dist loadfile` that goes on after a test process has died.

With pytest-xdist 3.8 the run waits for ever then: the files that the dead process had completed are
assigned again, without tests, and a process that receives one of them reports nothing and is
assigned nothing more. Load it with `-p tests.file_scheduling`.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FileScheduling(LoadFileScheduling):
    """Runs the tests of a file in one process, those after a test that ended it in another one."""

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

    def schedule(self) -> None:
        """Assign files to all processes, a new one included.

        A process runs its last test only when it gets another one or is shut down: hence twice.
        """
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
