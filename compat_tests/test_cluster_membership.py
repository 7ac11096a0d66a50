"""A wirekafka broker is a member of an Apache Kafka cluster like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from compat_tests.cluster import WIREKAFKA, Cluster, Shape
from tests.eventually import eventually

APACHE, OURS = 1, 2
UNREPLICATED = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.running(
        Shape(settings=UNREPLICATED), tmp_path_factory.mktemp("cluster")
    ) as running:
        yield running


@pytest.fixture(scope="module", params=[APACHE, OURS], ids=["by-apache", "by-wirekafka"])
def admin(cluster: Cluster, request: pytest.FixtureRequest) -> AdminClient:
    """An admin client that is served by either broker."""
    return AdminClient(
        {"bootstrap.servers": cluster.nodes[request.param].bootstrap, "log_level": 0}
    )


def placed_on(admin: AdminClient, name: str, broker: int) -> str:
    """Create a topic with one replica, on one broker, and wait until it is led there."""
    admin.create_topics([NewTopic(name, 1, replica_assignment=[[broker]])])[name].result(30)
    eventually(lambda: admin.list_topics(name, 10).topics[name].partitions[0].leader == broker)
    return name


def test_both_brokers_are_listed(cluster: Cluster, admin: AdminClient) -> None:
    listed = admin.list_topics(timeout=10)
    assert set(listed.brokers) == {APACHE, OURS}
    assert listed.cluster_id == cluster.id
    described = admin.describe_cluster().result(30)
    assert {node.id for node in described.nodes} == {APACHE, OURS}


def test_kafka_python_sees_both(cluster: Cluster) -> None:
    for id in (APACHE, OURS):
        client = KafkaAdminClient(bootstrap_servers=cluster.nodes[id].bootstrap)
        described = client.describe_cluster()
        client.close()
        assert {broker["broker_id"] for broker in described["brokers"]} == {APACHE, OURS}
        assert described["cluster_id"] == cluster.id


@pytest.mark.parametrize("broker", [APACHE, OURS])
def test_records_go_through_a_partition_on_either_broker(
    admin: AdminClient, cluster: Cluster, unique: str, broker: int
) -> None:
    topic = placed_on(admin, unique, broker)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(100):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": unique,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []

    def read() -> bool:
        values.extend(int(message.value()) for message in consumer.consume(100, 0.5))
        return len(values) >= 100

    eventually(read)
    consumer.close()
    assert values == list(range(100))


def test_a_broker_begins_with_the_snapshot_where_the_log_does(tmp_path: Path, unique: str) -> None:
    shape = Shape(
        brokers=(WIREKAFKA,),
        is_combined=False,
        settings=UNREPLICATED
        | {
            "controller.quorum.fetch.snapshot.max.bytes": "100",
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",
        },
        snapshot_end=1000,
    )
    with Cluster.running(shape, tmp_path) as cluster:
        [broker] = cluster.brokers()
        metadata = broker.data / "__cluster_metadata-0"
        assert [path.name for path in metadata.glob("*.checkpoint")] == [
            "00000000000000001000-0000000001.checkpoint"
        ]
        assert (metadata / "00000000000000001000.log").exists()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        placed_on(admin, unique, broker.id)
        for how in (cluster.stop, cluster.kill):
            how(broker.id)
            cluster.start(broker.id)
            assert unique in admin.list_topics(timeout=10).topics
