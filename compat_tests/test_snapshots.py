"""Apache Kafka and wirekafka open snapshots, and show what the node had at the instant."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.test_handover import create, work
from compat_tests.visible_state import view
from spark_examples.live_broker import live_broker
from tests.eventually import eventually

pytestmark = pytest.mark.timeout(300)


def test_both_engines_open_the_snapshot_of_a_running_node(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with live_broker(data) as bootstrap:
        create(bootstrap)
        work(bootstrap, "first")
        fill_segments(bootstrap)
        before = view(bootstrap)
        made = snapshot(data, tmp_path / "for-kafka", "--copy")
        assert made["linked_bytes"] == 0
        made = snapshot(data, tmp_path / "for-us")
        assert made["linked_bytes"] > 2 << 20
        work(bootstrap, "second")  # Nothing of it may be there.
    with apache_kafka_on([tmp_path / "for-kafka"], tmp_path) as bootstrap:
        assert view(bootstrap) == before
        work(bootstrap, "third")
    with live_broker(tmp_path / "for-us") as bootstrap:
        assert view(bootstrap) == before
        work(bootstrap, "third")
    assert (tmp_path / "for-us.log").read_text().count("is offline") == 0


def test_both_engines_open_the_snapshot_of_a_directory_that_kafka_has_stopped_on(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with live_broker(data) as bootstrap:
        create(bootstrap)
        work(bootstrap, "first")
        before = view(bootstrap)
    with apache_kafka_on([data], tmp_path) as bootstrap:
        assert view(bootstrap) == before
    for name in ("for-kafka", "for-us"):
        snapshot(data, tmp_path / name)
    with apache_kafka_on([tmp_path / "for-kafka"], tmp_path) as bootstrap:
        assert view(bootstrap) == before
    with live_broker(tmp_path / "for-us") as bootstrap:
        assert view(bootstrap) == before


def snapshot(data: Path, target: Path, *options: str) -> dict[str, int]:
    """Create a snapshot by the command line; returns its report."""
    made: dict[str, int] = json.loads(
        run("snapshot", "create", str(data), str(target), *options, "--json")
    )
    return made


def run(*words: str) -> str:
    """The output of a command."""
    command = [sys.executable, "-m", "wirekafka", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill_segments(bootstrap: str) -> None:
    """Write enough to a compacted topic for several segments."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(64):
        value = random.Random(number).randbytes(50_000)
        producer.produce("compacted", key=str(number), value=value)
        producer.flush(30)


@pytest.mark.parametrize("engine", ["wirekafka", "Apache Kafka"])
def test_both_engines_abort_the_open_transactions_of_a_branch_at_once(
    engine: str, tmp_path: Path
) -> None:
    data, branch = tmp_path / "data", tmp_path / "branch"
    with live_broker(data) as bootstrap:
        create(bootstrap)
        work(bootstrap, "first")
        before = view(bootstrap)
        run("branch", str(data), str(branch), "--reset-groups")
        assert "Ongoing" in states(before)
        assert before["groups"]
    serving = live_broker(branch) if engine == "wirekafka" else apache_kafka_on([branch], tmp_path)
    with serving as bootstrap:
        after = eventually(lambda: view_if_aborted(bootstrap))
    assert after["cluster"] != before["cluster"]
    assert not after["groups"]
    assert set(after["topics"]) == set(before["topics"])


def view_if_aborted(bootstrap: str) -> dict[str, Any] | None:
    seen = view(bootstrap)
    assert "Ongoing" not in states(seen)
    return seen if set(states(seen)) <= {"CompleteCommit", "CompleteAbort", "Empty"} else None


def states(seen: dict[str, Any]) -> list[str]:
    return [each[1] for each in seen["transactions"]]
