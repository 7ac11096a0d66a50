"""A log directory of a broker fails while clients write: both engines behave alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import HOST, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.replica_audit import Workload, assert_kept, drained, replica_batches
from compat_tests.wire import Wire
from tests.eventually import eventually
from tests.in_process import batch
from tests.repetitions import swept
from wirekafka.errors import Error
from wirekafka.protocol.describe_log_dirs import DescribeLogDirsRequest
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.protocol.produce import ProduceRequest

APACHE, OURS = 1, 2
BROKERS = swept([pytest.param(OURS, id=WIREKAFKA), pytest.param(APACHE, id=KAFKA)], every=2)
"""The broker whose directory fails; Apache Kafka's, to compare with, in `make test-all`."""
INDEXES = range(6)
SETTINGS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "offsets.topic.replication.factor": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shape = Shape(
        brokers=(KAFKA, WIREKAFKA), is_combined=False, settings=SETTINGS, log_directories=2
    )
    with Cluster.running(shape, tmp_path_factory.mktemp("directories")) as running:
        yield running


def partitions(cluster: Cluster, topic: str, broker: int) -> list[MetadataResponse.Topic.Partition]:
    """The partitions of a topic, as a broker describes them."""
    with closing(Wire((HOST, cluster.nodes[broker].port))) as wire:
        response = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 9)
    return sorted(response.topics[0].partitions, key=lambda each: each.partition_index)


def produced(cluster: Cluster, topic: str, index: int, broker: int) -> Error:
    """The error of a Produce request for a partition at one broker."""
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=index, records=batch())
    sent = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    with closing(Wire((HOST, cluster.nodes[broker].port))) as wire:
        response = wire.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[sent]), 9)
    return Error(response.responses[0].partition_responses[0].error_code)


def directory_errors(cluster: Cluster, broker: int) -> list[Error]:
    with closing(Wire((HOST, cluster.nodes[broker].port))) as wire:
        response = wire.ask(DescribeLogDirsRequest(topics=None), 4)
    found = {Path(each.log_dir): Error(each.error_code) for each in response.results}
    return [found[each] for each in cluster.nodes[broker].log_dirs]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("broker", BROKERS)
def test_leaders_move_away_and_return(cluster: Cluster, unique: str, broker: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    other = OURS if broker == APACHE else APACHE
    topic = NewTopic(unique, len(INDEXES), replica_assignment=[[broker, other]] * len(INDEXES))
    admin.create_topics([topic])[unique].result(60)
    node = cluster.nodes[broker]
    with Workload(cluster.bootstrap, unique, len(INDEXES)) as workload:
        workload.goes_on()
        failing = node.log_dirs[1]
        lost = {int(each.name.rpartition("-")[2]) for each in failing.glob(f"{unique}-*")}
        assert 0 < len(lost) < len(INDEXES)
        aside = failing.rename(failing.with_name("aside"))

        def have_moved() -> bool:
            return all(
                (each.leader_id, each.isr_nodes, each.offline_replicas)
                == ((other, [other], [broker]) if each.partition_index in lost else held)
                for at in (broker, other)
                for each in partitions(cluster, unique, at)
                for held in [(broker, each.isr_nodes, [])]
            )

        eventually(have_moved, timeout_s=60)
        assert directory_errors(cluster, broker) == [Error.NONE, Error.KAFKA_STORAGE_ERROR]
        assert {produced(cluster, unique, index, broker) for index in lost} == {
            Error.KAFKA_STORAGE_ERROR
        }
        workload.goes_on()
        assert node.is_running
        cluster.stop(broker)
        aside.rename(failing)
        cluster.start(broker)
        eventually(
            lambda: all(len(each.isr_nodes) == 2 for each in partitions(cluster, unique, other)),
            timeout_s=90,
        )
        workload.goes_on()
        acknowledged = workload.stop()
    assert not acknowledged.failed
    assert_kept(acknowledged, drained(cluster.bootstrap, unique, len(INDEXES)))

    def agree() -> bool:
        for index in INDEXES:
            kept = [
                replica_batches(found)
                for each in cluster.brokers()
                for log_dir in each.log_dirs
                if (found := log_dir / f"{unique}-{index}").is_dir()
            ]
            if len(kept) != 2 or kept[0] != kept[1]:
                return False
        return True

    eventually(agree, timeout_s=60)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("broker", BROKERS)
def test_broker_starts_without_a_directory_that_has_failed(
    cluster: Cluster, unique: str, broker: int
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    other = OURS if broker == APACHE else APACHE
    topic = NewTopic(unique, len(INDEXES), replica_assignment=[[broker, other]] * len(INDEXES))
    admin.create_topics([topic])[unique].result(60)
    node = cluster.nodes[broker]
    failing = node.log_dirs[1]
    with Workload(cluster.bootstrap, unique, len(INDEXES)) as workload:
        workload.goes_on()
        lost = {int(each.name.rpartition("-")[2]) for each in failing.glob(f"{unique}-*")}
        assert 0 < len(lost) < len(INDEXES)
        cluster.stop(broker)
        aside = failing.rename(failing.with_name("aside"))
        failing.write_text("a file in the place of the directory")
        cluster.start(broker)

        def are_where_they_can_be() -> bool:
            return all(
                (each.offline_replicas, each.isr_nodes == [other])
                == (([broker], True) if each.partition_index in lost else ([], False))
                and (each.partition_index not in lost or each.leader_id == other)
                for at in (broker, other)
                for each in partitions(cluster, unique, at)
            )

        eventually(are_where_they_can_be, timeout_s=60)
        assert directory_errors(cluster, broker) == [Error.NONE, Error.KAFKA_STORAGE_ERROR]
        assert {produced(cluster, unique, index, broker) for index in lost} == {
            Error.NOT_LEADER_OR_FOLLOWER
        }
        assert not {each.name for each in node.data.glob(f"{unique}-*")}.intersection(
            f"{unique}-{index}" for index in lost
        )
        workload.goes_on()
        later = f"{unique}-later"
        spread = NewTopic(later, 2, replica_assignment=[[broker, other]] * 2)
        admin.create_topics([spread])[later].result(60)
        eventually(lambda: len(list(node.data.glob(f"{later}-*"))) == 2, timeout_s=30)
        cluster.stop(broker)
        failing.unlink()
        aside.rename(failing)
        cluster.start(broker)
        eventually(
            lambda: all(len(each.isr_nodes) == 2 for each in partitions(cluster, unique, other)),
            timeout_s=90,
        )
        acknowledged = workload.stop()
    assert not acknowledged.failed
    assert_kept(acknowledged, drained(cluster.bootstrap, unique, len(INDEXES)))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("broker", BROKERS)
def test_broker_stops_when_the_directory_of_its_metadata_log_fails(
    cluster: Cluster, unique: str, broker: int
) -> None:
    node = cluster.nodes[broker]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topic = NewTopic(unique, 4, replica_assignment=[[broker, 3 - broker]] * 4)
    admin.create_topics([topic])[unique].result(60)
    with Workload(cluster.bootstrap, unique, 4) as workload:
        workload.goes_on()
        aside = node.data.rename(node.data.with_name("aside"))
        eventually(lambda: not node.is_running, timeout_s=60)
        assert node.process is not None and node.process.returncode != 0
        node.process = None
        workload.goes_on()
        aside.rename(node.data)
        cluster.start(broker)
        acknowledged = workload.stop()
    assert not acknowledged.failed


@pytest.mark.timeout(120)
@pytest.mark.parametrize("broker", BROKERS)
def test_broker_does_not_start_without_the_directory_of_its_metadata_log(
    cluster: Cluster, broker: int
) -> None:
    node = cluster.nodes[broker]
    cluster.stop(broker)
    aside = node.data.rename(node.data.with_name("aside"))
    node.data.write_text("a file in the place of the directory")
    cluster.spawn(broker)
    eventually(lambda: not node.is_running, timeout_s=60)
    assert node.process is not None and node.process.returncode == 1
    reason = f"Encountered I/O error in metadata log directory {node.data}. Cannot continue"
    assert reason in node.written()
    node.process = None
    node.data.unlink()
    aside.rename(node.data)
    cluster.start(broker)
