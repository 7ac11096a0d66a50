"""Quorums of wirekafka, of Apache Kafka and of both, whose leaders fail again and again."""

from __future__ import annotations

import os
from itertools import cycle, islice
from pathlib import Path

import pytest

from compat_tests.cluster import FIRST_CONTROLLER, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.cut_links import CONTROLLERS, LinkedCluster, Links
from compat_tests.quorums import assert_equal_metadata, await_followed, await_leader, create, make
from compat_tests.replica_audit import Workload, audit

ROUNDS = int(os.environ.get("WIREKAFKA_QUORUM_ROUNDS", "12"))
VOTERS = tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + 3))
SHAPES = {
    "1+2": (WIREKAFKA, KAFKA, KAFKA),
    "2+1": (WIREKAFKA, WIREKAFKA, KAFKA),
    "3+0": (WIREKAFKA, WIREKAFKA, WIREKAFKA),
}


@pytest.mark.campaign
@pytest.mark.parametrize("engines", SHAPES.values(), ids=SHAPES)
def test_a_quorum_outlives_every_failure_of_its_leader(
    tmp_path: Path, engines: tuple[str, ...]
) -> None:
    shape = Shape(
        brokers=(WIREKAFKA, KAFKA), controllers=3, controller_engines=engines, is_combined=False
    )
    with Links.open() as links, LinkedCluster.linked(shape, tmp_path, links) as cluster:
        create(cluster, "load", replicas=2)
        with Workload(cluster.bootstrap, "load", 2, rate_per_s=200) as workload:
            failures = islice(cycle(("kill", "cut", "pause", "stop")), ROUNDS)
            for number, failure in enumerate(failures):
                before = await_leader(cluster)
                fail(cluster, before.leader, failure)
                after = await_leader(cluster, after_epoch=before.epoch)
                print(f"{failure} {before.leader}: {after.leader} in epoch {after.epoch}")
                make(cluster, f"topic-{number}")
                heal(cluster, before.leader, failure)
                await_followed(cluster, *VOTERS)
                workload.goes_on()
            acknowledged = workload.stop()
        audit(cluster, "load", acknowledged)
        assert assert_equal_metadata(*(cluster.nodes[id] for id in VOTERS)) > ROUNDS


@pytest.mark.campaign
def test_a_quorum_of_apache_kafka_becomes_one_of_wirekafka_and_back(tmp_path: Path) -> None:
    """Each controller is stopped, and the other engine continues in its directory, under load."""
    shape = Shape(brokers=(WIREKAFKA, KAFKA), controllers=3, is_combined=False)
    with Cluster.running(shape, tmp_path) as cluster:
        create(cluster, "load", replicas=2)
        with Workload(cluster.bootstrap, "load", 2, rate_per_s=200) as workload:
            for engine in (WIREKAFKA, KAFKA):
                for id in VOTERS:
                    cluster.stop(id)
                    cluster.nodes[id].engine = engine
                    cluster.spawn(id)
                    await_followed(cluster, *VOTERS)
                    make(cluster, f"topic-{engine}-{id}", replicas=2)
                    workload.goes_on()
                    found = await_leader(cluster)
                    print(f"{engine} at {id}: {found.leader} leads epoch {found.epoch}", flush=True)
            acknowledged = workload.stop()
        audit(cluster, "load", acknowledged)
        assert assert_equal_metadata(*(cluster.nodes[id] for id in VOTERS)) > 6


def fail(cluster: LinkedCluster, node: int, failure: str) -> None:
    match failure:
        case "kill":
            cluster.kill(node)
        case "cut":
            cluster.links.cut(node, (CONTROLLERS,))
        case "pause":
            cluster.pause(node)
        case _:
            cluster.stop(node)


def heal(cluster: LinkedCluster, node: int, failure: str) -> None:
    if failure == "pause":
        cluster.go_on(node)
    elif failure == "cut":
        cluster.links.heal()
    else:
        cluster.spawn(node)
