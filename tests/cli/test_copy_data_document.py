"""The commands of the page on copies work as written, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from spark_examples.live_broker import live_broker

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs" / "how-to" / "copy-data.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    with live_broker(tmp_path / "data"):
        for block in BLOCKS:
            lines = block.replace("/mnt/backups", f"{tmp_path}/backups").splitlines()
            run("\n".join(line for line in lines if " serve " not in line), tmp_path)
    served = [line.split()[3] for line in "".join(BLOCKS).splitlines() if " serve " in line]
    assert served == ["./restored", "./try"]
    for directory in ("monday", *served):
        with live_broker(tmp_path / directory):
            pass
    assert os.listdir(tmp_path / "snapshots") == ["wednesday"]


def run(commands: str, directory: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (commands, done.stderr)
