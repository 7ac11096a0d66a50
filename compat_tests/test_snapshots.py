"""Apache Kafka and wirekafka open snapshots, and show what the node had at the instant."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.test_handover import create, work
from compat_tests.visible_state import view
from spark_examples.live_broker import live_broker

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
    command = [sys.executable, "-m", "wirekafka", "snapshot", "create", str(data), str(target)]
    command += [*options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    made: dict[str, int] = json.loads(done.stdout)
    return made


def fill_segments(bootstrap: str) -> None:
    """Write enough to a compacted topic for several segments."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(64):
        value = random.Random(number).randbytes(50_000)
        producer.produce("compacted", key=str(number), value=value)
        producer.flush(30)
