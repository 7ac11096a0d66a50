"""A wirekafka broker follows partitions that Apache Kafka leads: its files equal the leader's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.batch import batches
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest

APACHE, OURS = 1, 2
SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "1",
    # Leaders move by election only where a test stops a broker.
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(brokers=(KAFKA, WIREKAFKA), settings=SETTINGS)
    with Cluster.running(shape, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.nodes[APACHE].bootstrap, "log_level": 0})


class Followed:
    """A topic that broker 1 leads and broker 2 follows."""

    def __init__(self, cluster: Cluster, admin: AdminClient, name: str, count: int = 1):
        self.cluster = cluster
        self.admin = admin
        self.name = name
        self.count = count

    @classmethod
    def created(cls, cluster: Cluster, admin: AdminClient, name: str, **config: str) -> Followed:
        partitions = int(config.pop("partitions", "1"))
        values = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(
            name, partitions, replica_assignment=[[APACHE, OURS]] * partitions, config=values
        )
        admin.create_topics([topic])[name].result(30)
        return cls(cluster, admin, name, partitions)

    def produce(self, *values: bytes, acks: str = "all", **options: object) -> None:
        """Append records, spread over the partitions, and wait until they are acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.nodes[APACHE].bootstrap,
                "acks": acks,
                "linger.ms": 1,
                "log_level": 0,
                **options,
            }
        )
        for number, value in enumerate(values):
            producer.produce(self.name, value, partition=number % self.count)
        assert producer.flush(60) == 0

    def isr(self) -> list[list[int]]:
        """The in-sync replicas of each partition."""
        partitions = self.admin.list_topics(self.name, 10).topics[self.name].partitions
        return [sorted(partitions[index].isrs) for index in range(self.count)]

    def until_isr(self, *brokers: int) -> None:
        self.until(lambda: self.isr() == [list(brokers)] * self.count)

    def until(self, holds: Callable[[], bool]) -> None:
        eventually(holds, timeout_s=60)

    def stored(self, broker: int, index: int = 0) -> bytes:
        """The records of a partition in a broker's files, from the first segment to the last."""
        directory = self.cluster.nodes[broker].data / f"{self.name}-{index}"
        return b"".join(path.read_bytes() for path in segments(directory))

    def until_equal(self) -> None:
        """Wait until the files of both brokers are the same, and not empty."""
        self.until(
            lambda: all(
                self.stored(OURS, index) and self.stored(OURS, index) == self.stored(APACHE, index)
                for index in range(self.count)
            )
        )


def coordinated_by(node: Node, prefix: str) -> str:
    """A transactional id whose coordinator is a certain broker."""
    wire = Wire((HOST, node.port))
    names = (f"{prefix}-{number}" for number in count())
    name = next(names)

    def is_found() -> bool:
        nonlocal name
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        [found] = wire.ask(request, 4).coordinators
        if found.error_code == 0 and found.node_id != node.id:
            name = next(names)
        return found.error_code == 0 and found.node_id == node.id

    eventually(is_found, timeout_s=60)
    wire.close()
    return name


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def test_a_follower_enters_the_isr_with_the_leaders_bytes(
    cluster: Cluster, admin: AdminClient, unique: str
) -> None:
    topic = Followed.created(cluster, admin, unique, partitions="3")
    topic.produce(*[b"%d" % number for number in range(3000)])
    topic.until_isr(APACHE, OURS)
    topic.until_equal()


def test_compressed_batches_are_copied_unchanged(
    cluster: Cluster, admin: AdminClient, unique: str
) -> None:
    topic = Followed.created(cluster, admin, unique)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        values = [b"value %d" % number for number in range(500)]
        topic.produce(*values, **{"compression.type": codec})
    topic.until_equal()


def test_aborted_and_committed_transactions_are_followed(
    cluster: Cluster, admin: AdminClient, unique: str
) -> None:
    topic = Followed.created(cluster, admin, unique)
    producer = Producer(
        {
            "bootstrap.servers": cluster.nodes[APACHE].bootstrap,
            "transactional.id": coordinated_by(cluster.nodes[APACHE], unique),
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(unique, b"%d" % number, partition=0)
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    topic.until_equal()


def test_a_stopped_follower_leaves_the_isr_and_catches_up(
    cluster: Cluster, admin: AdminClient, unique: str
) -> None:
    topic = Followed.created(cluster, admin, unique, partitions="2", segment_bytes=str(1 << 20))
    topic.produce(*[b"before %d" % number for number in range(200)])
    topic.until_equal()
    cluster.stop(OURS)
    topic.until_isr(APACHE)
    topic.produce(*[b"while away %d" % number * 50 for number in range(5000)], acks="1")
    assert len(segments(cluster.nodes[APACHE].data / f"{unique}-0")) > 1
    cluster.start(OURS)
    topic.until_isr(APACHE, OURS)
    topic.until_equal()


def test_a_killed_follower_catches_up(cluster: Cluster, admin: AdminClient, unique: str) -> None:
    topic = Followed.created(cluster, admin, unique)
    topic.produce(*[b"before %d" % number for number in range(200)])
    cluster.kill(OURS)
    topic.until_isr(APACHE)
    topic.produce(*[b"while away %d" % number for number in range(2000)], acks="1")
    cluster.start(OURS)
    topic.until_isr(APACHE, OURS)
    topic.until_equal()


def test_a_replica_away_for_longer_than_retention_starts_at_the_leaders_start(
    cluster: Cluster, admin: AdminClient, unique: str
) -> None:
    topic = Followed.created(cluster, admin, unique, segment_bytes=str(1 << 20))
    topic.produce(*[b"before %d" % number for number in range(100)])
    topic.until_equal()
    cluster.stop(OURS)
    topic.until_isr(APACHE)
    topic.produce(*[b"%d " % number * 200 for number in range(5000)], acks="1")
    deleted = admin.delete_records([TopicPartition(unique, 0, 4000)])
    assert deleted[TopicPartition(unique, 0)].result(30).low_watermark == 4000
    cluster.start(OURS)
    topic.until_isr(APACHE, OURS)

    def is_the_rest() -> bool:
        ours = topic.stored(OURS)
        return (
            b"before" not in ours
            and next(batches(ours))[1].end_offset > 4000
            and topic.stored(APACHE).endswith(ours)
        )

    topic.until(is_the_rest)


def test_a_deleted_and_recreated_topic_is_followed_again(
    cluster: Cluster, admin: AdminClient, unique: str
) -> None:
    topic = Followed.created(cluster, admin, unique)
    topic.produce(*[b"old %d" % number for number in range(100)])
    topic.until_equal()
    admin.delete_topics([unique])[unique].result(30)
    topic.until(lambda: unique not in admin.list_topics(timeout=10).topics)
    topic = Followed.created(cluster, admin, unique)
    topic.produce(b"new")
    topic.until_equal()
    assert b"old" not in topic.stored(OURS)
