"""How brokers of a cluster fail, one by one, while a workload goes on.

WIREKAFKA_MIXED_SHAPES names the brokers' engines of each cluster, such as "kkw kww www" (k for
Apache Kafka, w for wirekafka). Each broker fails in WIREKAFKA_MIXED_WAYS of three ways: it is
stopped, killed, or paused for longer than its session.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.replica_audit import await_full_isr

ENGINES = {"k": KAFKA, "w": WIREKAFKA}
SHAPES = os.environ.get("WIREKAFKA_MIXED_SHAPES", "kkw kww www").split()
WAYS = int(os.environ.get("WIREKAFKA_MIXED_WAYS", "3"))
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}


def shape_of(engines: str, **settings: str) -> Shape:
    """A cluster of brokers with these engines, whose controllers are nodes of their own."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    brokers = [ENGINES[each] for each in engines]
    return Shape(brokers=brokers, is_combined=False, settings=QUICK | more)


def fail_each_broker(cluster: Cluster, topic: str, go_on: Callable[[], None]) -> None:
    """Let every broker fail in turn and return; `go_on` waits for progress meanwhile.

    Each time, all replicas of the topic are in sync again before the next failure.
    """
    for number, node in enumerate(cluster.brokers()):
        for way in range(number, number + WAYS):
            fail = (_stop, _kill, _pause)[way % 3]
            print(f"broker {node.id} ({node.engine}): {fail.__name__}", flush=True)
            fail(cluster, node.id, go_on)
            await_full_isr(cluster, topic)


def _stop(cluster: Cluster, id: int, go_on: Callable[[], None]) -> None:
    cluster.stop(id)
    go_on()
    cluster.start(id)


def _kill(cluster: Cluster, id: int, go_on: Callable[[], None]) -> None:
    cluster.kill(id)
    go_on()
    cluster.start(id)


def _pause(cluster: Cluster, id: int, go_on: Callable[[], None]) -> None:
    cluster.pause(id)
    go_on()
    cluster.go_on(id)
    cluster.await_in_service(id)
