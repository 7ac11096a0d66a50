"""A run of tests ends, and runs all other tests, when a test ends its process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.file_scheduling import (
    IN_WARM_SPARK,
    FileScheduling,
    pytest_collection_modifyitems,
    pytest_configure_node,
    recorded_seconds,
)

ROOT = Path(__file__).parent.parent
FATAL = "import os\n\ndef test_before():\n    pass\n\ndef test_fatal():\n    os._exit(3)\n"
TEST = "\ndef test_{}():\n    pass\n"


@pytest.mark.parametrize(
    ("dist", "after", "others"),
    [("loadfile", 0, 12), ("loadfile", 1, 0), ("loadfile", 5, 12), ("worksteal", 1, 12)],
)
def test_a_run_goes_on_after_a_fatal_test(
    tmp_path: Path, dist: str, after: int, others: int
) -> None:
    # Files with more tests are assigned first: some before and some after the fatal test's.
    (tmp_path / "test_fatal.py").write_text(FATAL + "".join(map(TEST.format, range(after))))
    for number in range(others):
        tests = "".join(map(TEST.format, range(1 + number // 2)))
        (tmp_path / f"test_other_{number}.py").write_text(tests)
    total = 1 + after + sum(1 + number // 2 for number in range(others))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", "2", "--dist", dist, "-c", "/dev/null"),
            *("-p", "tests.file_scheduling", "-p", "no:cacheprovider", str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(r"crashed while running '.*test_fatal'", run.stdout), run.stdout
    assert f" 1 failed, {total} passed" in run.stdout


def test_files_of_a_process_that_dies_while_it_gets_them_stay_assigned_until_it_is_removed() -> (
    None
):
    def send(tests: list[int]) -> None:
        raise OSError("cannot send (already closed?)")

    scheduling: Any = FileScheduling.__new__(FileScheduling)
    node: Any = Mock(send_runtest_some=send)
    scheduling.workqueue = OrderedDict({"a.py": {"a.py::test_it": False}})
    scheduling.assigned_work = {}
    scheduling.registered_collections = {node: ["a.py::test_it"]}
    scheduling._assign_work_unit(node)
    assert scheduling.assigned_work == {node: {"a.py": {"a.py::test_it": False}}}


def test_a_process_that_has_just_died_may_be_sent_anything() -> None:
    sent = Mock(side_effect=OSError("cannot send (already closed?)"))
    node: Any = SimpleNamespace(sendcommand=sent)
    pytest_configure_node(node)
    node.sendcommand("steal", indices=[3])
    sent.assert_called_once_with("steal", indices=[3])


def test_files_that_took_longest_start_first() -> None:
    longest = max(recorded_seconds(), key=recorded_seconds().__getitem__)
    first, last = (SimpleNamespace(nodeid=f"{file}::test_it") for file in (longest, "tests/new.py"))
    items: Any = [last, first]
    pytest_collection_modifyitems(items)
    assert items == [first, last]


def test_files_that_share_a_jvm_run_in_one_process() -> None:
    scheduling = FileScheduling.__new__(FileScheduling)
    scopes = {scheduling._split_scope(f"{file}::test_it") for file in IN_WARM_SPARK}
    assert len(scopes) == 1
    assert scheduling._split_scope("compat_tests/test_tls.py::test_it") not in scopes


def test_recorded_files_exist() -> None:
    named = {*recorded_seconds(), *IN_WARM_SPARK}
    assert [file for file in named if not (ROOT / file).exists()] == []
