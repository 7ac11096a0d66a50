"""Published Grafana dashboards have no empty panel, by a real Prometheus, if it is installed.

Every query of their panels and variables is evaluated, on one node and on a cluster of three.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.cluster import WIREKAFKA, Shape
from compat_tests.dashboard_queries import DASHBOARDS, Query, queries
from compat_tests.exporter_stage import COMMITTED, PARTITIONS, SETTINGS, filled
from compat_tests.measured_cluster import CLUSTER, LABELS, MeasuredCluster
from compat_tests.prometheus import PROGRAM, Prometheus, prometheus
from tests.eventually import eventually

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="Prometheus is not installed (Debian: apt install prometheus)"
)

FLOWING = "flowing"
"""A topic that is written, and read by the group of the same name, all the time."""
VARIABLES = {
    "kubernetes_namespace": "kafka",
    "strimzi_cluster_name": CLUSTER,
    "job": "kafka",
    # All of them, as Grafana puts it.
    "kafka_broker": ".*",
    "kafka_topic": ".+",
    "kafka_partition": ".*",
    "kraft_node": ".*",
    "topic": ".*",
    "consumergroup": f"({'|'.join([*COMMITTED, FLOWING])})",
}
TOPICS = {
    **PARTITIONS,
    FLOWING: 1,
    "__consumer_offsets": 4,
    "__transaction_state": 4,
    "__share_group_state": 4,
}
PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "monitor.md"
PROMTOOL = shutil.which("promtool")


class Observed(NamedTuple):
    """A cluster under load, and the Prometheus that scrapes it."""

    prometheus: Prometheus
    nodes: int
    instances: list[str]


@pytest.fixture(scope="module", params=[1, 3], ids=["a-node", "three-nodes"])
def observed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observed]:
    nodes = request.param
    directory = tmp_path_factory.mktemp("dashboards")
    shape = Shape(brokers=(WIREKAFKA,) * nodes, controllers=nodes, settings=SETTINGS)
    with (
        MeasuredCluster.running(shape, directory / "cluster") as cluster,
        filled(cluster.brokers()[0].bootstrap, replicas=nodes),
        flowing(cluster.bootstrap),
        prometheus(directory / "prometheus", cluster.targets) as found,
    ):
        yield Observed(found, nodes, [target.address for target in cluster.targets])


@contextmanager
def flowing(bootstrap: str) -> Iterator[None]:
    """Records are written, read and committed until the end."""
    stop = threading.Event()
    base = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = Consumer(
        {
            **base,
            "group.id": FLOWING,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
        }
    )
    producer = Producer({**base, "topic.metadata.refresh.interval.ms": 1000})

    def flow() -> None:
        consumer.subscribe([FLOWING])
        while not stop.wait(0.02):
            producer.produce(FLOWING, b"value")
            producer.poll(0)
            consumer.poll(0)

    producer.produce(FLOWING, b"first")
    assert producer.flush(30) == 0
    thread = threading.Thread(target=flow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(10)
        consumer.close()


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_no_panel_is_empty_that_applies(observed: Observed, dashboard: str) -> None:
    def found(query: Query) -> bool:
        # kafka_exporter's own dashboard shows one instance, and a group is at its coordinator's.
        asked = (query.expression({**VARIABLES, "instance": each}) for each in observed.instances)
        return any(observed.prometheus.query(text) for text in asked)

    every = queries(dashboard)
    empty = [query for query in every if not query.inapplicable]
    assert len(empty) > 5

    def have_data() -> bool:
        empty[:] = [query for query in empty if not found(query)]
        return not empty

    with suppress(AssertionError):
        eventually(have_data, timeout_s=60)
    assert empty == []
    assert not any(found(query) for query in every if query.inapplicable)


def test_sums_over_brokers_are_those_of_the_cluster(observed: Observed) -> None:
    nodes = observed.nodes
    expected = {
        ("strimzi-kafka", "Brokers Online"): nodes,
        ("strimzi-kafka", "Active Controllers"): 1,
        ("strimzi-kafka", "Offline Partitions Count"): 0,
        ("strimzi-kafka-exporter", "Topics"): len(TOPICS),
        ("strimzi-kafka-exporter", "Partitions"): sum(TOPICS.values()),
        # Of the topic that a Produce request has created there is one replica.
        ("strimzi-kafka-exporter", "In Sync Replicas"): (sum(TOPICS.values()) - 1) * nodes + 1,
        ("strimzi-kafka-exporter", "Partitions not on preferred node"): 0,
    }
    texts = {
        (dashboard, query.title): query.expression(VARIABLES)
        for dashboard in DASHBOARDS
        for query in queries(dashboard)
        if (dashboard, query.title) in expected
    }

    def values() -> dict[tuple[str, str], float | None]:
        return {key: observed.prometheus.value(text) for key, text in texts.items()}

    with suppress(AssertionError):
        eventually(lambda: values() == expected, timeout_s=60)
    assert values() == expected


def test_the_documented_configuration_is_prometheus_own(tmp_path: Path) -> None:
    if PROMTOOL is None:
        pytest.skip("promtool is not installed")
    [block] = re.findall(r"```yaml\n(scrape_configs:.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "prometheus.yml"
    path.write_text(block)
    checked = subprocess.run(
        [PROMTOOL, "check", "config", str(path)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert set(re.findall(r"^ {10}(\w+): ", block, re.MULTILINE)) == set(LABELS)
