"""A campaign: clusters of both engines in which each broker fails in each way, one by one.

WIREKAFKA_MIXED_SHAPES names the brokers' engines of each cluster, such as "kkw kww www" (k for
Apache Kafka, w for wirekafka). Each broker fails in WIREKAFKA_MIXED_WAYS of three ways: it is
stopped, killed, or paused for longer than its session.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.replica_audit import Workload, audit, await_full_isr

ENGINES = {"k": KAFKA, "w": WIREKAFKA}
SHAPES = os.environ.get("WIREKAFKA_MIXED_SHAPES", "kkw kww www").split()
WAYS = int(os.environ.get("WIREKAFKA_MIXED_WAYS", "3"))
PARTITIONS = 6
TOPIC = "kept"
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engines", SHAPES)
def test_nothing_acknowledged_is_lost_while_each_broker_fails(engines: str, tmp_path: Path) -> None:
    shape = Shape(brokers=[ENGINES[each] for each in engines], is_combined=False, settings=QUICK)
    with Cluster.running(shape, tmp_path) as cluster:
        _create(cluster)
        with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as workload:
            workload.goes_on()
            for number, node in enumerate(cluster.brokers()):
                for way in range(number, number + WAYS):
                    fail = (_stop, _kill, _pause)[way % 3]
                    print(f"{engines}: broker {node.id} ({node.engine}): {fail.__name__}")
                    fail(cluster, node.id, workload.goes_on)
            acknowledged = workload.stop()
        audit(cluster, TOPIC, acknowledged)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_brokers_are_replaced_in_place_by_the_other_engine_and_back(tmp_path: Path) -> None:
    shape = Shape(brokers=[KAFKA] * 3, is_combined=False, settings=QUICK)
    with Cluster.running(shape, tmp_path) as cluster:
        _create(cluster)
        with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as workload:
            workload.goes_on()
            for engine in (WIREKAFKA, KAFKA):
                for node in cluster.brokers():
                    print(f"broker {node.id} becomes {engine}")
                    cluster.stop(node.id)
                    node.engine = engine
                    cluster.start(node.id)
                    await_full_isr(cluster, TOPIC)
                    workload.goes_on()
            acknowledged = workload.stop()
        audit(cluster, TOPIC, acknowledged)


def _create(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)


def _stop(cluster: Cluster, id: int, go_on: Callable[[], None]) -> None:
    cluster.stop(id)
    go_on()
    cluster.start(id)
    await_full_isr(cluster, TOPIC)


def _kill(cluster: Cluster, id: int, go_on: Callable[[], None]) -> None:
    cluster.kill(id)
    go_on()
    cluster.start(id)
    await_full_isr(cluster, TOPIC)


def _pause(cluster: Cluster, id: int, go_on: Callable[[], None]) -> None:
    cluster.pause(id)
    go_on()
    cluster.go_on(id)
    cluster.await_in_service(id)
    await_full_isr(cluster, TOPIC)
