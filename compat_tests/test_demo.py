"""The demo's verdict, and one clear sentence where something is missing or wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_examples import demo

ROOT = Path(__file__).resolve().parent.parent

RESULT = {
    "flights": 2,
    "departed": 2,
    "departure_delay_minutes": 7,
    "arrived": 1,
    "arrival_delay_minutes": 3,
}
EXPECTED = {"carrier:UA": RESULT, "hour:2013-01-01T10:00Z": RESULT}


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_equal_results_are_reported_as_no_differences(capsys: pytest.CaptureFixture[str]) -> None:
    demo.report(2, EXPECTED, EXPECTED)
    assert last_line(capsys) == (
        "demo: 2 flights produced, 2 read by Spark, 2 results, 0 differences"
    )


@pytest.mark.parametrize(
    ("produced", "found", "line"),
    [
        (
            2,
            {**EXPECTED, "carrier:UA": {**RESULT, "arrived": 2}},
            "demo: 2 flights produced, 2 read by Spark, 2 results, 1 differences",
        ),
        (
            2,
            {"carrier:UA": RESULT},
            "demo: 2 flights produced, 0 read by Spark, 1 results, 1 differences",
        ),
        (3, EXPECTED, "demo: 3 flights produced, 2 read by Spark, 2 results, 0 differences"),
    ],
    ids=["a wrong total", "a missing result", "an unread flight"],
)
def test_any_difference_ends_in_exit_status_1(
    capsys: pytest.CaptureFixture[str], produced: int, found: dict[str, Any], line: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.report(produced, found, EXPECTED)
    assert ended.value.code == 1
    assert last_line(capsys) == line


def run(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_wrong_address_is_reported_in_one_sentence() -> None:
    done = run("spark_examples.demo", "--bootstrap", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "demo: no broker answers at 127.0.0.1:1."


def test_set_up_names_the_missing_java_or_python(tmp_path: Path) -> None:
    # A copy, because a clone that is already set up does not search for Python again.
    script = tmp_path / ".ci" / "set-up"
    script.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "set-up", script)
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for command in ("sh", "dirname", "cat", "sed", "head", "cksum"):
        (tmp_path / command).symlink_to(shutil.which(command) or "")

    def complaint(python: str = "") -> str:
        done = subprocess.run(
            [str(script)],
            env={"PATH": str(tmp_path), "PYTHON": python},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        return line

    assert complaint().startswith("set-up: Java 17 or newer is needed")
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    assert complaint() == "set-up: Java 17 or newer is needed, and java is version 11."
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.2\"' >&2\n")
    assert complaint() == (
        "set-up: Python 3.11 or newer is needed, and no such python3 is on PATH."
    )
    assert complaint("python3.99") == (
        "set-up: PYTHON is python3.99, which is not Python 3.11 or newer."
    )
