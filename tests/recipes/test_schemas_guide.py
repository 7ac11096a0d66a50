"""The recipes and commands of docs/how-to/schemas.md run as they are written."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wirekafka import Broker

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "schemas.md"
TEXT = PAGE.read_text()
RECIPES: dict[str, str] = dict(
    re.findall(r"^### (\d+\. [^\n]+)\n\n```python\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL)
)
SERVE, WRITE, LOOK = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
[OUTPUT] = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)


def test_the_page_has_two_recipes() -> None:
    assert len(RECIPES) == 2


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(title: str) -> None:
    code = RECIPES[title]
    name = f"<{PAGE.name}: {title}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(code, name, "exec"), namespace)
    [function] = [value for key, value in namespace.items() if key.startswith("test_")]
    [mark] = function.pytestmark
    with Broker(**mark.kwargs) as broker:
        function(broker)


def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    assert SERVE.startswith("wirekafka serve --data ./data ")
    with Broker(schema_registry=True) as broker:
        assert run(tmp_path, broker, WRITE).endswith(OUTPUT)
        printed = run(tmp_path, broker, LOOK)
    assert printed.startswith('orders-value\n{"type":"record","name":"Order"')
    assert "refused" in printed


def run(directory: Path, broker: Any, commands: str) -> str:
    """What commands print, in a shell; they must succeed."""
    url = broker.schema_registry_url
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "WIREKAFKA_BOOTSTRAP": broker.bootstrap_servers,
        "WIREKAFKA_SCHEMA_REGISTRY": url,
    }
    done = subprocess.run(
        ["sh", "-e", "-c", commands.replace("http://127.0.0.1:8081", url)],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
