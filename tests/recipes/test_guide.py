"""Every recipe of docs/testing.md is run as it is printed there."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

from wirekafka import Broker

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
TEXT = GUIDE.read_text()
RECIPES: dict[str, str] = dict(re.findall(
    r"^### (\d+\. [^\n]+)\n\n```python\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL))


def test_there_are_ten() -> None:
    assert [int(title.split(".")[0]) for title in RECIPES] == list(range(1, 11))


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(title: str) -> None:
    (function,) = _tests(title, RECIPES[title])
    with Broker() as broker:
        result = function(wirekafka_broker=broker)
        if inspect.iscoroutine(result):
            asyncio.run(asyncio.wait_for(result, 60))


def test_the_first_example() -> None:
    (function,) = _tests("example", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0])
    function()


def _tests(title: str, code: str) -> list[Any]:
    name = f"<{GUIDE.name}: {title}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(code, name, "exec"), namespace)
    return [value for key, value in namespace.items() if key.startswith("test_")]
