"""The commands in the README and in the how-to guide of clusters work as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.conftest import RunningBroker
from tests.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
CLUSTERS = (ROOT / "docs" / "how-to" / "run-a-cluster.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README + CLUSTERS, re.DOTALL)


@pytest.fixture
def environment(broker: RunningBroker) -> dict[str, str]:
    """The installed commands, talking to the live broker."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "WIREKAFKA_BOOTSTRAP": broker.bootstrap}


def test_the_python_program_and_the_commands_run(
    broker: RunningBroker, environment: dict[str, str]
) -> None:
    (program,) = [text for language, text in BLOCKS if language == "python"]
    program = program.replace("127.0.0.1:9092", broker.bootstrap)
    (commands,) = [text for language, text in BLOCKS if "topics create greetings" in text]
    commands = commands.replace("wirekafka ", f"{sys.executable} -m wirekafka ")
    shell = subprocess.run(
        ["sh", "-e", "-c", commands],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shell.returncode == 0, shell.stderr
    assert "hello" in shell.stdout.splitlines()
    subprocess.run([sys.executable, "-c", program], env=environment, timeout=60, check=True)


def test_the_commands_of_the_cluster_start_three_nodes(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (commands,) = [text for language, text in BLOCKS if "node.id=$id" in text]
    brokers, controllers = _free_prefix(), _free_prefix()
    commands = commands.replace(":1909", f":{controllers}").replace(":909", f":{brokers}")
    script = f"trap 'kill $(jobs -p); wait' EXIT\n{commands}"
    shell = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert shell.returncode == 0, shell.stderr
    assert (tmp_path / "node-3" / "__cluster_metadata-0").is_dir()


def _free_prefix() -> str:
    """Digits that, followed by 1, 2 or 3, are the number of a free port."""
    return str(next(port for port in free_ports(12) if port % 10 == 1) // 10)
