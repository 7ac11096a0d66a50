"""A campaign: clusters of both engines in which each broker fails in each way, one by one.

In another test its connections to the controllers, to the other brokers, or to both are cut and
healed; a short case of that is no campaign. `broker_failures` names the variables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.broker_failures import SHAPES, fail_each_broker, shape_of
from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster
from compat_tests.cut_links import BROKERS, CONTROLLERS, LinkedCluster, Links
from compat_tests.replica_audit import Workload, audit, await_full_isr
from tests.eventually import eventually

PARTITIONS = 6
TOPIC = "kept"


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engines", SHAPES)
def test_nothing_acknowledged_is_lost_while_each_broker_fails(engines: str, tmp_path: Path) -> None:
    with Cluster.running(shape_of(engines), tmp_path) as cluster:
        _create(cluster)
        with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as workload:
            workload.goes_on()
            fail_each_broker(cluster, TOPIC, workload.goes_on)
            acknowledged = workload.stop()
        audit(cluster, TOPIC, acknowledged)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_brokers_are_replaced_in_place_by_the_other_engine_and_back(tmp_path: Path) -> None:
    with Cluster.running(shape_of("kkk"), tmp_path) as cluster:
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


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engines", SHAPES)
def test_nothing_acknowledged_is_lost_while_each_broker_is_cut_off(
    engines: str, tmp_path: Path
) -> None:
    shape = shape_of(engines)
    with Links.open() as links, LinkedCluster.linked(shape, tmp_path, links) as cluster:
        _create(cluster)
        with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as workload:
            workload.goes_on()
            for node in cluster.brokers():
                for kinds in ((CONTROLLERS,), (BROKERS,), (CONTROLLERS, BROKERS)):
                    print(f"{engines}: broker {node.id} ({node.engine}): no {kinds}")
                    _cut_off(cluster, node.id, kinds, workload.goes_on)
            acknowledged = workload.stop()
        audit(cluster, TOPIC, acknowledged)


@pytest.mark.timeout(180)
def test_broker_that_was_cut_off_rejoins_and_nothing_is_lost(tmp_path: Path) -> None:
    shape = shape_of("www")
    with Links.open() as links, LinkedCluster.linked(shape, tmp_path, links) as cluster:
        _create(cluster)
        with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as workload:
            workload.goes_on()
            _cut_off(cluster, 2, (CONTROLLERS, BROKERS), workload.goes_on)
            acknowledged = workload.stop()
        audit(cluster, TOPIC, acknowledged)


def _create(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)


def _cut_off(
    cluster: LinkedCluster, id: int, kinds: Collection[str], go_on: Callable[[], None]
) -> None:
    """Cut a broker off, wait until it is fenced or out of the others' ISRs, and heal the cut."""
    [first, *_] = [node for node in cluster.brokers() if node.id != id]

    def is_out() -> bool:
        if CONTROLLERS in kinds:
            return id not in cluster.listed_by(first.id)
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
        return all(each.leader == id or id not in each.isrs for each in partitions)

    cluster.links.cut(id, kinds)
    eventually(is_out, timeout_s=60)
    if CONTROLLERS in kinds:
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
        assert all(each.leader not in (id, -1) for each in partitions)
    go_on()
    cluster.links.heal()
    cluster.await_in_service(id)
    await_full_isr(cluster, TOPIC)
