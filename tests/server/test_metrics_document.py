"""The commands for monitoring work as written, and the metrics that the pages name exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.raw_client import RawClient
from tests.server.test_monitoring import Monitored
from tests.server.test_serve import batch, create, fetch, produce

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
GUIDE = (DOCS / "how-to" / "monitor.md").read_text()
PAGES = (
    GUIDE,
    (DOCS / "reference" / "metrics.md").read_text(),
    (DOCS / "explanation" / "lag.md").read_text(),
)
BLOCKS = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = BLOCKS[1].splitlines()
_METRIC = r"`((?:kafka|wirekafka|process|python)_[a-z_]+\*?)`"
NAMED = sorted({name for page in PAGES for name in re.findall(_METRIC, page)})


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    found = Monitored(tmp_path_factory.mktemp("document") / "data")
    with found.serving, RawClient(found.serving.port) as client:
        create(client, "t")
        produce(client, "t", batch(b"one"))
        fetch(client, "t")
        yield found


def test_the_first_command_is_how_the_listener_is_turned_on() -> None:
    assert BLOCKS[0] == "wirekafka serve --metrics 9404\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(monitored: Monitored, command: str) -> None:
    program = shutil.which(command.split()[0], path=f"{Path(sys.executable).parent}:{os.defpath}")
    if program is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    words = [program, *command.split()[1:]]
    words = [word.replace("http://127.0.0.1:9404", monitored.url) for word in words]
    environment = {"WIREKAFKA_BOOTSTRAP": f"127.0.0.1:{monitored.serving.port}"}
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("name", NAMED)
def test_a_metric_that_is_named_is_exported(monitored: Monitored, name: str) -> None:
    text = monitored.get("/metrics").body.decode()
    declared = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    if re.match(r"(wire)?kafka_(consumergroup|sharegroup|groups)", name):
        pytest.skip("without a group; tests/server/test_lag.py has some")
    if name.startswith("wirekafka_tier_"):
        pytest.skip("without a tier; tests/tiered/test_serving.py has one")
    if name.startswith("wirekafka_table_"):
        pytest.skip("without tables; tests/server/tabling/test_table_metrics.py has one")
    if name.startswith("wirekafka_disk_budget_"):
        pytest.skip("without a budget; tests/server/test_disk_space.py has one")
    if name.startswith("wirekafka_mirror_"):
        pytest.skip("without a mirror; tests/server/mirroring/test_mirroring.py has one")
    if "_remaining" in name:
        pytest.skip("while a broker starts: tests/server/test_recovery_metrics.py")
    if name.endswith("*"):
        assert any(each.startswith(name[:-1]) for each in declared)
    else:
        assert name in declared
