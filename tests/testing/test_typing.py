"""A user's test file passes mypy --strict, and one with mistakes does not."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path
from typing import get_args

import pytest

import wirekafka
from wirekafka.apis.shared import registry, routes
from wirekafka.errors import Error
from wirekafka.testing import Record
from wirekafka.testing.hooks.names import ApiName, ErrorName

ROOT = Path(__file__).parents[2]

GOOD = """
import pytest
import wirekafka
from wirekafka.errors import Error
from wirekafka.testing import Broker, Exchange, Group, Record, Rule, StoredRecord
from wirekafka.testing.hooks.names import ApiName, ErrorName

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
    headers = {"a": b"1"}
    pairs: list[tuple[str, bytes]] = [("a", b"1")]
    wirekafka_broker.produce("t", [Record("x", headers=headers), Record("x", headers=pairs)])
    wirekafka_broker.produce("t", [Record("x", headers=[("a", "1"), ("b", None)])])
    wirekafka_broker.produce("t", [Record("x", headers=(("a", b"1"),))])
    wirekafka_broker.produce("t", [Record("x", headers={"a": "1", "b": None})])
    api: ApiName = "Produce"
    error: ErrorName = "NOT_LEADER_OR_FOLLOWER"
    wirekafka_broker.fail(api, error)

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
from wirekafka.testing import Record
from wirekafka.testing.hooks.names import ApiName

with wirekafka.Broker(port="9092") as broker:
    broker.fail("Produce")
    broker.drop("Fetch", topik="t")
    broker.produce("t", [1])
    broker.produce("t", [Record("x", headers={"a": 1})])
    api: ApiName = "Produced"
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
    assert [int(line.split(":")[1]) for line in errors if "bad.py" in line] == [*range(6, 12)]


def test_the_literals_are_the_names_of_all_apis_and_errors() -> None:
    registry.load()
    assert set(get_args(ApiName)) == {"*", *(each.name for each in routes.BROKERS.served())}
    assert set(get_args(ErrorName)) == set(Error.__members__) - {"NONE"}


def test_headers_are_pairs_or_a_mapping() -> None:
    given = ([("a", b"1")], (("a", "1"),), {"a": b"1"})
    with wirekafka.Broker(topics=["t"]) as broker:
        broker.produce("t", [Record("v", headers=headers) for headers in given])
        assert [each.headers for each in broker.records("t")] == [(("a", b"1"),)] * 3


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
