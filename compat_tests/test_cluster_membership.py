"""A wirekafka broker is a member of an Apache Kafka cluster like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.replica_audit import Workload, audit, await_full_isr
from tests.eventually import eventually
from tests.repetitions import swept

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "run-a-cluster.md"
APACHE, OURS, OF_GUIDE, LATER = 1, 2, 3, 4
UNREPLICATED = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers; a third with the settings of the guide, and a fourth, are down."""
    shape = Shape(brokers=(KAFKA, WIREKAFKA, WIREKAFKA, KAFKA), settings=UNREPLICATED)
    with Cluster.laid_out(shape, tmp_path_factory.mktemp("cluster")) as laid_out:
        node = laid_out.nodes[OF_GUIDE]
        properties = guide_properties(node, laid_out.nodes[APACHE])
        (node.directory / "server.properties").write_text(properties)
        laid_out.start(APACHE, OURS)
        yield laid_out


def guide_properties(broker: Node, controller: Node) -> str:
    """The broker's file as the guide has it, with the values of this cluster."""
    [block] = re.findall(r"```properties\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    values = dict(line.split("=", 1) for line in block.splitlines()) | {
        "node.id": str(broker.id),
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller.controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{broker.port}",
        "log.dirs": str(broker.data),
    }
    assert len(values) == len(block.splitlines()), "other keys than those of the guide"
    return "".join(f"{name}={value}\n" for name, value in values.items())


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


@pytest.mark.parametrize("broker", swept([OURS, APACHE], every=2))
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


def replicated(cluster: Cluster, name: str, *assignment: list[int]) -> str:
    """Create a topic with these replicas of each partition."""
    admin = AdminClient({"bootstrap.servers": cluster.nodes[APACHE].bootstrap, "log_level": 0})
    topic = NewTopic(name, len(assignment), replica_assignment=list(assignment))
    admin.create_topics([topic])[name].result(30)
    return name


def take_out(cluster: Cluster, id: int) -> None:
    """Stop a broker, and wait until no other lists it."""
    cluster.stop(id)
    eventually(lambda: all(id not in cluster.listed_by(each) for each in (APACHE, OURS)))


def leaders(cluster: Cluster, topic: str) -> list[int]:
    """The leader of each partition, as the broker of Apache Kafka reports it."""
    admin = AdminClient({"bootstrap.servers": cluster.nodes[APACHE].bootstrap, "log_level": 0})
    partitions = admin.list_topics(topic, 10).topics[topic].partitions
    return [partitions[index].leader for index in sorted(partitions)]


def test_a_kill_loses_no_acknowledged_record_and_a_stop_moves_leaders(
    cluster: Cluster, unique: str
) -> None:
    topic = replicated(cluster, unique, [OURS, APACHE], [APACHE, OURS])
    admin = AdminClient({"bootstrap.servers": cluster.nodes[APACHE].bootstrap, "log_level": 0})
    with Workload(cluster.bootstrap, topic, 2) as workload:
        workload.goes_on()
        assert leaders(cluster, topic) == [OURS, APACHE]
        cluster.kill(OURS)
        workload.goes_on()
        assert leaders(cluster, topic) == [APACHE, APACHE]
        cluster.start(OURS)
        await_full_isr(cluster, topic)
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(30)
        eventually(lambda: leaders(cluster, topic) == [OURS, APACHE])
        workload.goes_on()
        cluster.stop(OURS)
        # Before the session of the stopped broker would have ended, after nine seconds.
        eventually(lambda: leaders(cluster, topic) == [APACHE, APACHE], timeout_s=5)
        workload.goes_on()
        cluster.start(OURS)
        acknowledged = workload.stop()
    audit(cluster, topic, acknowledged)


def test_the_settings_of_the_readme_make_a_member(cluster: Cluster, unique: str) -> None:
    cluster.start(OF_GUIDE)
    for id in (APACHE, OURS, OF_GUIDE):
        assert cluster.listed_by(id) == {APACHE, OURS, OF_GUIDE}
    topic = replicated(cluster, unique, [OF_GUIDE, APACHE], [OURS, OF_GUIDE])
    with Workload(cluster.bootstrap, topic, 2) as workload:
        workload.goes_on()
        acknowledged = workload.stop()
    audit(cluster, topic, acknowledged)
    take_out(cluster, OF_GUIDE)


def test_wirekafka_goes_on_with_the_files_of_an_apache_kafka_broker(
    cluster: Cluster, unique: str
) -> None:
    cluster.start(LATER)
    topic = replicated(cluster, unique, [LATER, APACHE], [APACHE, LATER], [OURS, LATER])
    with Workload(cluster.bootstrap, topic, 3) as workload:
        workload.goes_on()
        cluster.stop(LATER)
        cluster.nodes[LATER].engine = WIREKAFKA
        cluster.start(LATER)
        workload.goes_on()
        acknowledged = workload.stop()
    audit(cluster, topic, acknowledged)
    take_out(cluster, LATER)


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
