"""The pytest plugin: fixtures, markers, the report of a failure, and eight workers at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

USERS_TESTS = """
import pytest
from wirekafka import Broker

@pytest.mark.wirekafka(topics={"orders": 3}, num_partitions=2)
class TestMarked:
    def test_class(self, wirekafka_broker):
        assert wirekafka_broker.topics() == {"orders": 3}

    @pytest.mark.wirekafka(topics=["own"])
    def test_closest_marker_wins(self, wirekafka_broker):
        assert wirekafka_broker.topics() == {"own": 2}

@pytest.mark.parametrize("turn", [1, 2])
def test_the_session_broker_is_reset(wirekafka_session_broker, turn):
    assert wirekafka_session_broker.topics() == {}
    wirekafka_session_broker.produce("t", ["1"])

def test_that_fails(wirekafka_broker):
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": wirekafka_broker.bootstrap_servers})
    with wirekafka_broker.fail("Produce", "INVALID_TIMESTAMP"):
        producer.produce("t", b"v")
        producer.flush(10)
    assert wirekafka_broker.records("t")

@pytest.mark.wirekafka(topics=["t"])
def test_marked_wrongly(wirekafka_session_broker):
    pass

@pytest.mark.wirekafka(num_partition=1)
def test_misspelt(wirekafka_broker):
    pass

@pytest.mark.wirekafka(topic=["t"])
def test_misspelt_argument(wirekafka_broker):
    pass

@pytest.mark.wirekafka_cluster(broker=2)
def test_misspelt_argument_of_a_cluster(wirekafka_cluster):
    pass

def test_modules_are_imported_from_cached_bytecode(wirekafka_broker):
    import sys
    rewritten = {
        name
        for name, module in sys.modules.items()
        if name.startswith("wirekafka.") and "Rewriting" in type(module.__loader__).__name__
    }
    assert len(rewritten) < 8, rewritten
"""

CLUSTER_TESTS = """
import pytest

@pytest.mark.wirekafka_cluster(brokers=2, topics=["orders"])
class TestMarked:
    def test_class(self, wirekafka_cluster):
        assert wirekafka_cluster.replicas("orders") in ([1, 2], [2, 1])

    @pytest.mark.wirekafka_cluster(controllers=3)
    def test_options_are_joined(self, wirekafka_cluster):
        assert (len(wirekafka_cluster), len(wirekafka_cluster.controllers)) == (2, 3)

@pytest.mark.parametrize("turn", range(4))
def test_a_new_one_for_each_test(wirekafka_cluster, turn):
    assert wirekafka_cluster.topics() == {}
    wirekafka_cluster.produce("t", ["1"])

def test_that_fails(wirekafka_cluster):
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": wirekafka_cluster.bootstrap_servers})
    producer.produce("t", b"v")
    producer.flush(10)
    assert not wirekafka_cluster.records("t")
"""

ROUGH_TESTS = """
import pytest

@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("end", ["stop", "crash"])
def test_it_is_there_whatever_the_last_test_did(wirekafka_session_broker, turn, end):
    assert wirekafka_session_broker.topics() == {}
    wirekafka_session_broker.produce("t", ["1"])
    getattr(wirekafka_session_broker, end)()

def test_that_stops_it_and_fails(wirekafka_broker):
    wirekafka_broker.stop()
    assert wirekafka_broker is None

def test_the_next(wirekafka_broker):
    assert wirekafka_broker.topics() == {}
"""

MANY_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(200))
def test_one(wirekafka_broker, number):
    wirekafka_broker.produce("t", [str(number)])
    assert [r.value for r in wirekafka_broker.records("t")] == [str(number).encode()]
"""


def test_fixtures_markers_and_reports(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    run = _pytest(tmp_path)
    assert "5 passed" in run and "1 failed" in run and "4 errors" in run
    assert re.search(r"-+ requests of <Broker 127\.0\.0\.1:\d+> -+", run)
    assert re.search(r"rdkafka Produce v\d+ \(t-0\) -> INVALID_TIMESTAMP", run)
    assert "cannot be configured by a test" in run
    assert "did you mean 'num.partitions'" in run
    assert "unknown argument or broker config 'topic'; did you mean 'topics'" in run
    assert "unknown argument or broker config 'broker'; did you mean 'brokers'" in run


def test_a_test_may_end_with_a_crashed_broker(tmp_path: Path) -> None:
    (tmp_path / "test_rough.py").write_text(ROUGH_TESTS)
    run = _pytest(tmp_path)
    assert "7 passed" in run and "1 failed" in run and "INTERNALERROR" not in run
    assert "this broker was stopped" in run


def test_a_cluster_for_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_clusters.py").write_text(CLUSTER_TESTS)
    run = _pytest(tmp_path, "-n2")
    assert "6 passed" in run and "1 failed" in run
    assert re.search(r"-+ requests of <Cluster 127\.0\.0\.1:\d+,127\.[\d.:,]+> -+", run)
    assert re.search(r"rdkafka Produce v\d+ \(t-0\) -> ok", run)


def test_eight_workers_with_25_tests_each(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(MANY_TESTS)
    assert "200 passed" in _pytest(tmp_path, "-n8")


def _pytest(directory: Path, *options: str) -> str:
    # Without other plugins: eight workers on two processors would spend their time on imports.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "wirekafka.testing.plugin",
        "-p",
        "xdist",
        "-p",
        "no:cacheprovider",
        *options,
        ".",
    ]
    run = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return run.stdout + run.stderr
