"""The commands in the README work as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.conftest import RunningBroker

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


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
    (commands,) = [text for language, text in BLOCKS if "topics create" in text]
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
