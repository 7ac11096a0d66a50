"""Every recipe of the guide, and the first test of the tutorial, is run as it is printed."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import kafka_jars
from wirekafka import Broker, Cluster

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "how-to" / "test-with-faults.md"
TEXT = GUIDE.read_text()
TUTORIAL = (DOCS / "tutorials" / "first-test.md").read_text()
RECIPES: dict[str, str] = dict(
    re.findall(r"^### (\d+\. [^\n]+)\n\n```python\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL)
)


APPLICATION = re.findall(r"```java\n(.*?)```", TEXT, re.DOTALL)[0]
"""The Kafka Streams application that some recipes start."""


def test_the_guide_has_32_recipes() -> None:
    assert [int(title.split(".")[0]) for title in RECIPES] == list(range(1, 33))


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (function,) = _tests(title, RECIPES[title])
    if "Totals.java" in RECIPES[title]:
        _make_application(tmp_path, monkeypatch)
    with _fixture(function) as given:
        result = function(**given)
        if inspect.iscoroutine(result):
            asyncio.run(asyncio.wait_for(result, 60))


@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL))
def test_the_tests_of_the_tutorial_pass(program: str) -> None:
    (function,) = _tests("tutorial", program)
    function()


@contextmanager
def _fixture(function: Any) -> Iterator[dict[str, Any]]:
    """The broker or cluster that a recipe asks for, with the options of its marker."""
    options: dict[str, Any] = {}
    for mark in getattr(function, "pytestmark", ()):
        options |= mark.kwargs
    if "wirekafka_broker" in inspect.signature(function).parameters:
        with Broker(**options) as broker:
            yield {"wirekafka_broker": broker}
        return
    with Cluster(**options) as cluster:
        yield {"wirekafka_cluster": cluster}


def _make_application(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the Kafka Streams application, and set the environment that it needs."""
    (directory / "Totals.java").write_text(APPLICATION)
    monkeypatch.chdir(directory)
    monkeypatch.setenv("PATH", str(Path(kafka_jars.java()).parent), prepend=os.pathsep)
    monkeypatch.setenv("CLASSPATH", kafka_jars.class_path(kafka_jars.tools_jars()))
    # Its state directory is deleted with that of the test.
    options = f"-Djava.io.tmpdir={directory} -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)


def _tests(title: str, code: str) -> list[Any]:
    name = f"<{GUIDE.name}: {title}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(code, name, "exec"), namespace)
    return [value for key, value in namespace.items() if key.startswith("test_")]
