"""Metadata that a single node cannot serve is refused, and the message names it."""

import pytest

from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from tests.metadata.cluster import Cluster
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.metadata.compatibility import check_alone, check_compatible, check_untiered
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.records import metadata as r


def test_a_cluster_of_one_can_be_served():
    cluster = Cluster()
    cluster.create("t", num_partitions=3)
    check_alone(cluster.image, 1)


def test_a_replicated_partition_is_named():
    cluster = Cluster(1, 2)
    cluster.create("t", replication_factor=2)
    with pytest.raises(UnusableDirectory, match=r"partition t-0 is on brokers \[1, 2\]"):
        check_alone(cluster.image, 1)


def test_a_partition_of_another_broker_is_named():
    cluster = Cluster()
    cluster.create("t")
    with pytest.raises(UnusableDirectory, match="not on broker 7 alone"):
        check_alone(cluster.image, 7)


def test_a_tiered_topic_is_named():
    cluster = Cluster()
    cluster.create("t")
    cluster.image.replay(
        r.ConfigRecord(
            resource_type=2, resource_name="t", name="remote.storage.enable", value="true"
        )
    )
    with pytest.raises(UnusableDirectory, match="topic t is tiered"):
        check_untiered(cluster.image, 1)
    check_untiered(cluster.image, 2)  # It has no replica of the topic.


@pytest.mark.parametrize(("name", "level"), [("metadata.version", 34), ("new.version", 1)])
def test_a_newer_feature_is_named(name, level):
    cluster = Cluster()
    cluster.image.replay(r.FeatureLevelRecord(name=name, feature_level=level))
    with pytest.raises(UnusableDirectory, match=f"{name} {level}"):
        check_compatible(cluster.image)


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (34, "newer than Kafka 4.4.*kafka-features.sh downgrade --feature metadata.version=33"),
        (3, "Kafka 3.2.*Kafka 3.9.*kafka-features.sh upgrade --release-version 3.9"),
        (6, "Kafka 3.3"),
    ],
)
def test_the_kafka_version_and_a_remedy_are_named(level, words):
    cluster = Cluster()
    cluster.image.replay(r.FeatureLevelRecord(name="metadata.version", feature_level=level))
    with pytest.raises(UnusableDirectory, match=words):
        check_compatible(cluster.image)


@pytest.fixture
def data(tmp_path):
    """A directory after a clean stop."""
    broker = InProcessBroker(tmp_path / "data", ManualClock())
    broker.create("t")
    now(broker.broker.stop())
    return tmp_path / "data"


def files(data):
    """All files except the producer snapshots, which opening the log removes."""
    return {
        str(file.relative_to(data)): file.read_bytes()
        for file in data.rglob("*")
        if file.is_file() and file.suffix != ".snapshot"
    }


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (r.FeatureLevelRecord(name="metadata.version", feature_level=34), "metadata.version 34"),
        (
            r.ConfigRecord(
                resource_type=2, resource_name="t", name="remote.storage.enable", value="true"
            ),
            "topic t is tiered",
        ),
    ],
)
def test_a_refused_directory_is_left_as_it_was(data, record, named):
    broker = InProcessBroker(data, ManualClock())
    broker.broker.quorum.append(MetadataCodec().encode([record], 0, None))
    now(broker.broker.stop())
    before = files(data)
    with pytest.raises(UnusableDirectory, match=named):
        InProcessBroker(data, ManualClock())
    assert files(data) == before


def test_a_directory_of_several_controllers_is_left_as_it_was(data):
    state = data / "__cluster_metadata-0" / "quorum-state"
    state.write_text(
        state.read_text().replace('[{"voterId":1}]', '[{"voterId":1},{"voterId":2},{"voterId":3}]')
    )
    before = files(data)
    with pytest.raises(UnusableDirectory, match=r"controllers \[1, 2, 3\]"):
        InProcessBroker(data, ManualClock())
    assert files(data) == before
