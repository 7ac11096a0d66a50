"""The commands run as a user runs them, against a live broker."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_examples.live_broker import live_broker
from wirekafka.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="session")
def bootstrap(data_directory: Path) -> Iterator[str]:
    with live_broker(data_directory) as address:
        yield address


@pytest.fixture
def run(bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Run:
    """`run("topics", "list")`; `given` is what the command reads."""
    return command_line(bootstrap, monkeypatch, capfdbinary)


def command_line(bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Run:
    """The function that runs commands on the cluster at `bootstrap`."""
    monkeypatch.setenv("WIREKAFKA_BOOTSTRAP", bootstrap)

    def run(*words: str, given: str = "") -> Outcome:
        source, sink = os.pipe()
        os.write(sink, given.encode())
        os.close(sink)
        with os.fdopen(source) as stdin, pytest.raises(SystemExit) as exit:
            monkeypatch.setattr(sys, "stdin", stdin)
            main(words)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Outcome(int(exit.value.code or 0), captured.out.decode(), captured.err.decode())

    return run


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> str:
    """A new topic of three partitions."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:200]
    assert run("topics", "create", name, "--partitions", "3").status == 0
    return name
