"""What one node cannot serve is refused by name."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.metadata import records as r
from wirekafka.metadata.servable import check_servable


def test_a_cluster_of_one_can_be_served():
    cluster = Cluster()
    cluster.create("t", num_partitions=3)
    check_servable(cluster.image, 1)


def test_a_replicated_partition_is_named():
    cluster = Cluster(1, 2)
    cluster.create("t", replication_factor=2)
    with pytest.raises(UnusableDirectory, match=r"partition t-0 is on brokers \[1, 2\]"):
        check_servable(cluster.image, 1)


def test_a_partition_of_another_broker_is_named():
    cluster = Cluster()
    cluster.create("t")
    with pytest.raises(UnusableDirectory, match="not on broker 7 alone"):
        check_servable(cluster.image, 7)


def test_a_tiered_topic_is_named():
    cluster = Cluster()
    cluster.create("t")
    cluster.image.replay(r.ConfigRecord(
        resource_type=2, resource_name="t", name="remote.storage.enable", value="true"))
    with pytest.raises(UnusableDirectory, match="topic t is tiered"):
        check_servable(cluster.image, 1)


@pytest.mark.parametrize(("name", "level"), [("metadata.version", 31), ("new.version", 1)])
def test_a_newer_feature_is_named(name, level):
    cluster = Cluster()
    cluster.image.replay(r.FeatureLevelRecord(name=name, feature_level=level))
    with pytest.raises(UnusableDirectory, match=f"{name} {level}"):
        check_servable(cluster.image, 1)
