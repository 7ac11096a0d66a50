"""A user's test file passes mypy --strict, and one with mistakes does not."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

import pytest

import wirekafka

ROOT = Path(__file__).parents[2]

GOOD = """
import pytest
import wirekafka
from wirekafka.errors import Error
from wirekafka.testing import Broker, Exchange, Group, Record, Rule, StoredRecord

@pytest.mark.wirekafka(topics=["t"])
def test_orders(wirekafka_broker: Broker) -> None:
    offsets: list[int] = wirekafka_broker.produce("t", ["a", ("k", b"v"), Record("x", key=None)])
    records: list[StoredRecord] = wirekafka_broker.records("t")
    value: bytes | None = records[0].value
    with wirekafka_broker.fail("Produce", Error.REQUEST_TIMED_OUT, topic="t", times=2) as rule:
        hits: int = rule.hits
    held: Rule = wirekafka_broker.hold(["Fetch", "Produce"], when=lambda request: True)
    held.release()
    with wirekafka_broker.clock.freeze(at_ms=0) as clock, wirekafka_broker.disk_full():
        clock.advance(minutes=1.5)
    groups: list[Group] = wirekafka_broker.groups()
    asked: list[Exchange] = wirekafka_broker.requests.of("Produce", topic="t")
    first: Group = wirekafka_broker.wait_for(lambda: groups[0])
    offset: int = wirekafka_broker.committed("g")["t", 0]

def run() -> str:
    with wirekafka.Broker("data", topics={"t": 3}, num_partitions=2, process=True) as broker:
        broker.restore(broker.snapshot())
        return broker.bootstrap_servers

async def arun() -> str:
    async with wirekafka.Broker() as broker:
        return broker.cluster_id
"""

BAD = """
import wirekafka

with wirekafka.Broker(port="9092") as broker:
    broker.fail("Produce")
    broker.drop("Fetch", topik="t")
    broker.produce("t", [1])
"""


def test_a_users_file_passes_mypy_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        "pyproject.toml",
        str(tmp_path / "good.py"),
        str(tmp_path / "bad.py"),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert [line for line in errors if "good.py" in line] == []
    assert [int(line.split(":")[1]) for line in errors if "bad.py" in line] == [4, 5, 6, 7]


def test_the_plugin_imports_no_broker_at_the_start_of_pytest() -> None:
    check = (
        "import sys, wirekafka.testing.plugin;"
        " assert not {'wirekafka.broker', 'wirekafka.testing.broker'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=True)


class UnitTest(unittest.TestCase):
    """Those who use unittest enter the broker as any context."""

    def test_a_broker_as_a_context(self) -> None:
        broker = self.enterContext(wirekafka.Broker(topics=["t"]))
        self.assertEqual(broker.produce("t", ["1"]), [0])
