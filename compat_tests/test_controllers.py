"""wirekafka's controllers serve brokers of both engines, and Kafka's tools, while they change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.java_tools import JavaTools
from compat_tests.quorums import await_leader, described
from tests.eventually import eventually

APACHE = 4
"""The broker of Apache Kafka; the brokers 1 to 3 are wirekafka's, and controllers as well."""
_SETTINGS = {"offsets.topic.replication.factor": "3", "metadata.log.segment.ms": "1000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(
        brokers=(WIREKAFKA, WIREKAFKA, WIREKAFKA, KAFKA), controllers=3, settings=_SETTINGS
    )
    with Cluster.running(shape, tmp_path_factory.mktemp("controllers")) as running:
        yield running


def _admin(cluster: Cluster) -> AdminClient:
    running = [node.bootstrap for node in cluster.brokers() if node.is_running]
    return AdminClient({"bootstrap.servers": ",".join(running), "log_level": 0})


def _round_trip(cluster: Cluster, topic: str) -> None:
    """Create a topic on three of the brokers, write to it, and read what was written."""
    admin = _admin(cluster)
    admin.create_topics([NewTopic(topic, 4, 3)])[topic].result(30)
    running = [node.bootstrap for node in cluster.brokers() if node.is_running]
    client = {"bootstrap.servers": ",".join(running), "log_level": 0}
    producer = Producer(client | {"enable.idempotence": True})
    sent = {f"{topic}-{number}".encode() for number in range(40)}
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    consumer = Consumer(client | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[bytes] = set()

    def all_are_read() -> bool:
        for message in consumer.consume(100, 0.5):
            if message.error() is None:
                found.add(message.value())
        return found == sent

    eventually(all_are_read, timeout_s=60)
    consumer.close()


@pytest.mark.timeout(240)
def test_kafkas_tool_describes_the_quorum_at_a_controller(
    cluster: Cluster, java_tools: JavaTools, unique: str
) -> None:
    _round_trip(cluster, unique)
    leader = await_leader(cluster)
    for id in (1, 2, 3):
        controller = f"{HOST}:{cluster.nodes[id].controller_port}"
        printed = java_tools.run(
            "kafka-metadata-quorum", "--bootstrap-controller", controller, "describe", "--status"
        )
        assert re.search(rf"LeaderId: +{leader.leader}\n", printed)
        assert all(f'"id": {voter}' in printed for voter in (1, 2, 3))
    assert leader.voters.keys() == {1, 2, 3} and leader.observers.keys() == {APACHE}


@pytest.mark.timeout(240)
def test_a_killed_leader_is_succeeded_and_returns(cluster: Cluster, unique: str) -> None:
    before = await_leader(cluster)
    cluster.kill(before.leader)
    after = await_leader(cluster, after_epoch=before.epoch)
    assert after.leader != before.leader
    _round_trip(cluster, unique)
    cluster.start(before.leader)

    def has_everything() -> bool:
        now = described(cluster)
        return now is not None and now.voters[before.leader] >= now.high_watermark > 0

    eventually(has_everything, timeout_s=30)


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_directories_of_a_quorum_go_to_apache_kafka_and_back(tmp_path: Path, unique: str) -> None:
    shape = Shape(brokers=(WIREKAFKA,) * 3, controllers=3, settings=_SETTINGS)
    with Cluster.laid_out(shape, tmp_path) as cluster:
        for turn, engine in enumerate((WIREKAFKA, KAFKA, WIREKAFKA)):
            for node in cluster.nodes.values():
                node.engine = engine
            cluster.start(*cluster.nodes)
            _round_trip(cluster, f"{unique}-{turn}")
            admin = _admin(cluster)
            topics = admin.list_topics(timeout=30).topics
            assert {f"{unique}-{each}" for each in range(turn + 1)} <= set(topics)
            *others, last = cluster.nodes
            for id in others:
                cluster.stop(id)
            # Apache Kafka's last broker waits minutes for a controller that could let it go.
            cluster.kill(last)
