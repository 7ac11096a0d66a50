"""What `make check`, `make test` and `make test-all` run, and that the first needs no Java."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tests.repetitions import repetitions, seeds, swept

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()


def test_folders_of_make_check_need_no_java() -> None:
    listed = re.search(r"^PURE = ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)
    assert listed is not None
    folders = listed[1].replace("\\\n", " ").split()
    assert len(folders) > 5
    needing = [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^(?:from|import) .*(kafka_jars|kafka_schemas|compat_tests)",
                     path.read_text(), re.MULTILINE)
    ]  # fmt: skip
    assert needing == []


def test_files_without_a_test_in_make_test_are_known_campaigns() -> None:
    documented = MAKEFILE + (ROOT / "CONTRIBUTING.md").read_text()
    left_out = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "compat_tests")
        for path in (ROOT / folder).rglob("test_*.py")
        if (tests := _marks_of_tests(path)) and all("campaign" in marks for marks in tests)
    ]
    assert len(left_out) > 1
    assert [file for file in left_out if file not in documented] == []


def _marks_of_tests(path: Path) -> list[set[str]]:
    """The names of the marks of each test in a file."""
    return [
        set(re.findall(r"mark\.(\w+)", " ".join(map(ast.unparse, node.decorator_list))))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, 5), ({"WIREKAFKA_TESTS": "all"}, 50), ({"WIREKAFKA_LIVES": "7"}, 7)],
)
def test_a_variable_sets_a_number_and_a_thorough_run_has_more(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: int
) -> None:
    for name in ("WIREKAFKA_TESTS", "WIREKAFKA_LIVES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert repetitions("WIREKAFKA_LIVES", usual=5, thorough=50) == expected


def test_seeds_of_all_simulations_are_set_at_once_or_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WIREKAFKA_SEEDS", "300")
    assert seeds("WIREKAFKA_QUORUM_SEEDS", usual=5, thorough=50) == 300
    monkeypatch.setenv("WIREKAFKA_QUORUM_SEEDS", "9")
    assert seeds("WIREKAFKA_QUORUM_SEEDS", usual=5, thorough=50) == 9


def test_a_sweep_keeps_all_cases_and_marks_those_that_are_not_usual() -> None:
    cases: list[Any] = swept([1, 2, pytest.param(3, id="three"), 4], every=3)
    assert [getattr(case, "values", (case,)) for case in cases] == [(1,), (2,), (3,), (4,)]
    marked = [[mark.name for mark in getattr(case, "marks", ())] for case in cases]
    assert marked == [[], ["sweep"], ["sweep"], []]
    assert cases[2].id == "three"
