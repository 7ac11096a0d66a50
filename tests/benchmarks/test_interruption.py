"""An interrupted benchmark keeps its finished results and leaves nothing else behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def benchmark(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A benchmark without comparison; broker data in `directory`/data, results beside."""
    (directory / "data").mkdir()
    command = [sys.executable, "-m", "benchmarks", "--alone", "--untouched", *arguments]
    command += ["--scratch", str(directory / "data"), "--output", str(directory)]
    # A child inherits ignored signals, such as Ctrl-C in the background jobs of a shell.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, cwd=ROOT, text=True, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    children: list[psutil.Process] = []
    try:
        yield process
    finally:
        if process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
        for each in (process, *children):
            each.kill()
        process.communicate()


def answering_broker(process: subprocess.Popen[str]) -> psutil.Process | None:
    """Its broker, once that accepts connections."""
    for child in psutil.Process(process.pid).children():
        words = child.cmdline()
        if "--listen" in words:
            host, _, port = words[words.index("--listen") + 1].rpartition(":")
            try:
                socket.create_connection((host, int(port))).close()
            except ConnectionRefusedError:
                continue
            return child
    return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_benchmark_and_its_broker(tmp_path: Path, number: signal.Signals) -> None:
    only = "produce batched 200 B, librdkafka"
    with benchmark(tmp_path, "--only", only, "--seconds", "60") as process:
        broker = eventually(lambda: answering_broker(process))
        children = psutil.Process(process.pid).children(recursive=True)
        assert broker in children
        process.send_signal(number)
        _, output = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert output.splitlines()[-1] == f"ended by {number.name}: what was finished is kept"
    assert "Traceback" not in output
    assert not [child for child in children if child.is_running()]
    assert not list((tmp_path / "data").iterdir())


def test_cases_finished_before_a_signal_are_kept(tmp_path: Path) -> None:
    """The results of an earlier run are kept as well."""
    with benchmark(tmp_path, "--only", "join a group", "--seconds", "0.1") as process:
        assert process.wait(120) == 0
    (tmp_path / "data").rmdir()
    with benchmark(tmp_path, "--alternations", "1", "--seconds", "0.1") as process:
        kept = eventually(lambda: len(cases := finished(tmp_path)) > 1 and cases)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert {"start", "join a group"} <= set(kept) <= set(finished(tmp_path))


def finished(directory: Path) -> list[str]:
    stored = json.loads((directory / "usual.json").read_text())
    return [result["case"] for result in stored["results"]]
