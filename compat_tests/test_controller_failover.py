"""A wirekafka broker continues after failures of its controllers, and they after its failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Node, Shape
from compat_tests.quorums import make
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.batch import batches
from wirekafka.errors import Error
from wirekafka.log.directories.log_directory import METADATA_LOG
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.describe_quorum import DescribeQuorumRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.records.metadata import BrokerRegistrationChangeRecord

BROKER = 1
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(brokers=(WIREKAFKA,), controllers=3, is_combined=False, settings=SETTINGS)
    with Cluster.running(shape, tmp_path_factory.mktemp("controllers")) as running:
        yield running


def active(cluster: Cluster) -> int:
    """The active controller, as the broker reports it."""
    wire = Wire((HOST, cluster.nodes[BROKER].port), timeout_s=5)
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        topics=[
            topic(
                topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)]
            )
        ]
    )
    response = wire.ask(request, 2)
    wire.close()
    [partition] = response.topics[0].partitions
    assert [each.replica_id for each in partition.observers] == [BROKER]
    leader: int = partition.leader_id
    return leader


def test_the_next_controller_is_followed_when_the_active_one_is_killed(
    cluster: Cluster, unique: str
) -> None:
    make(cluster, f"{unique}-before")
    first = active(cluster)
    cluster.kill(first)
    make(cluster, f"{unique}-after")
    assert active(cluster) not in (first, -1)


def fencing(cluster: Cluster) -> list[bool]:
    """Whether each change fenced the broker or unfenced it, by the longest controller's log."""
    return max(
        (
            [
                record.fenced > 0
                for record in metadata(node)
                if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced
            ]
            for node in cluster.nodes.values()
            if node.is_controller
        ),
        key=len,
    )


def metadata(node: Node) -> Iterator[object]:
    """The records in the metadata log of a node that may be running."""
    data = (node.data / METADATA_LOG / f"{0:020d}.log").read_bytes()
    for at, header in batches(data):
        if not header.is_control:
            yield from MetadataCodec().decode(data[at : at + header.size_bytes])


def test_a_connection_does_not_wait_for_topics_that_no_controller_creates(
    cluster: Cluster, unique: str
) -> None:
    """Clients send their other requests on the same connection."""
    paused = [node.id for node in cluster.nodes.values() if node.is_controller and node.is_running]
    wire = Wire((HOST, cluster.nodes[BROKER].port), timeout_s=10)
    wanted = MetadataRequest(topics=[MetadataRequest.Topic(name=unique)])
    cluster.pause(*paused)
    try:
        for _ in range(8):
            [topic] = wire.ask(wanted, 12).topics
            assert topic.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
    finally:
        cluster.go_on(*paused)
    eventually(lambda: wire.ask(wanted, 12).topics[0].error_code == 0, timeout_s=60)
    wire.close()


def await_newest_metadata(cluster: Cluster, unique: str) -> None:
    """Wait until the broker has applied the metadata that the controllers have by now.

    The broker lists itself also before it learns that it was fenced. Until it learns that it no
    longer is, it lists no broker and no controller, as Apache Kafka does, and librdkafka does not
    repeat a request for metadata that is answered so.
    """
    wire = Wire((HOST, cluster.nodes[BROKER].port), timeout_s=10)
    newest = MetadataRequest(topics=[MetadataRequest.Topic(name=f"{unique}-newest")])
    eventually(lambda: wire.ask(newest, 12).topics[0].error_code == 0, timeout_s=60)
    wire.close()


def test_a_broker_that_was_paused_for_longer_than_its_session_returns(
    cluster: Cluster, unique: str
) -> None:
    make(cluster, f"{unique}-before")
    before = len(fencing(cluster))
    cluster.pause(BROKER)
    eventually(lambda: fencing(cluster)[before:] == [True], timeout_s=60)
    cluster.go_on(BROKER)
    eventually(lambda: fencing(cluster)[before:] == [True, False], timeout_s=60)
    await_newest_metadata(cluster, unique)
    assert cluster.listed_by(BROKER) == {BROKER}
    make(cluster, f"{unique}-after")


def test_a_broker_waits_for_its_controllers_and_returns_after_a_crash(
    cluster: Cluster, unique: str
) -> None:
    controllers = [node.id for node in cluster.nodes.values() if node.engine == KAFKA]
    make(cluster, f"{unique}-before")
    cluster.kill(*controllers, BROKER)
    log = cluster.nodes[BROKER].log
    before = len(log.read_text())
    cluster.spawn(BROKER)
    eventually(lambda: "No active controller is known" in log.read_text()[before:])
    cluster.spawn(*controllers[:2])
    cluster.await_in_service(BROKER)
    assert log.read_text()[before:].count("No active controller is known") == 1
    make(cluster, f"{unique}-after")
