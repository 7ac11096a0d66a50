"""The tutorial of a first broker works as written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.ports import free_ports
from tests.server.serving import Serving

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs" / "tutorials" / "first-broker.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
[OUTPUT] = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)


class Newcomer:
    """Somebody who follows the tutorial, on a free port."""

    def __init__(self, directory: Path):
        self.directory = directory
        [self.port] = free_ports(1)

    def serve(self) -> Serving:
        return Serving(self.directory / "data", listen=f"127.0.0.1:{self.port}")

    def run(self, commands: str) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        bootstrap = f"127.0.0.1:{self.port}"
        done = subprocess.run(
            ["sh", "-e", "-c", commands],
            cwd=self.directory,
            env={**os.environ, "PATH": path, "WIREKAFKA_BOOTSTRAP": bootstrap},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


def test_the_first_broker_keeps_records_and_positions_over_a_kill(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    start, write, read, two, rest, again, dump = BLOCKS
    assert start == "wirekafka serve --data ./data --listen 127.0.0.1:9092\n"
    serving = newcomer.serve()
    try:
        assert "3 records to orders" in newcomer.run(write)
        assert newcomer.run(read) == OUTPUT == newcomer.run(read)
        printed = newcomer.run(two)
        assert printed.splitlines()[:2] == ["tea", "coffee"]
        assert re.search(r"orders +0 +2 +3 +1\b", printed), printed
        assert newcomer.run(rest).splitlines() == ["cake"]
        serving.stop(signal.SIGKILL)
        serving = newcomer.serve()
        printed = newcomer.run(again)
        assert printed.splitlines()[:3] == ["tea", "coffee", "cake"]
        assert re.search(r"orders +0 +3 +3 +0\b", printed), printed
        dumped = newcomer.run(dump)
        assert "tea" in dumped and "cake" in dumped
    finally:
        serving.stop()
