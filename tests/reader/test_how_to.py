"""The examples of docs/how-to/read-a-log.md run as they are written."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from tests.directories import contents
from wirekafka import Broker

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "read-a-log.md"


def example(containing: str) -> str:
    """The only example in Python with a text."""
    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    return str(found)


def test_the_example_for_directories_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(contents.archive("4.4.0")) as archive:
        archive.extractall(tmp_path, filter="data")
    code = example("Log.open").replace("/var/lib/kafka", str(tmp_path / "data"))
    # The records of the archive are older than the example.
    code = code.replace("orders", contents.EVENTS).replace("datetime(2026,", "datetime(2001,")
    exec(code, {})
    offsets, *counts = capsys.readouterr().out.splitlines()
    assert offsets.endswith("OffsetRange(start_offset=0, end_offset=15)")
    assert sum(map(int, counts)) == 15


def test_the_example_for_brokers_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        broker.produce("orders", [b"%d" % number for number in range(7)])
        exec(example("WireLog").replace("127.0.0.1:9092", broker.bootstrap_servers), {})
    assert sum(map(int, capsys.readouterr().out.split())) == 7
