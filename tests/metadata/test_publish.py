"""What a broker is asked to do as metadata commits."""

import pytest

from tests.metadata.cluster import Cluster, RecordingHost
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.configs import AlterConfigs, Change, Kind, ResourceChanges
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.publish import Publisher
from wirekafka.metadata.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicReference,
)


@pytest.fixture
def cluster():
    return Cluster(1, 2)


def test_a_new_topic_places_the_partitions_that_belong_here(cluster):
    cluster.create("t", assignments=[(0, [1]), (1, [2]), (2, [1])])
    cluster.create("both", assignments=[(0, [2, 1])])
    placed = [done[1:3] for done in cluster.host.done if done[0] == "place"]
    assert placed == [("t", 0), ("t", 2), ("both", 0)]


def test_a_new_topic_is_placed_before_its_configs_are_told(cluster):
    cluster.create("t", assignments=[(0, [1])], configs={"retention.ms": "7"})
    assert cluster.host.done == [("place", "t", 0, 0), ("configure", "t", {"retention.ms": "7"})]


def test_growth_places_only_what_is_new(cluster):
    cluster.create("t", assignments=[(0, [1])])
    cluster.host.done.clear()
    cluster.submit(CreatePartitions([Growth("t", 2, [[1]])]))
    assert cluster.host.done == [("place", "t", 1, 0)]


def test_a_deleted_topic_is_dropped_and_told(cluster):
    cluster.create("t", assignments=[(0, [1])])
    cluster.host.done.clear()
    cluster.submit(DeleteTopics([TopicReference("t")]))
    assert cluster.host.done == [("drop", "t", 0), ("deleted", ["t"])]


def test_nothing_is_done_before_it_is_committed(cluster):
    cluster.log.commits_at_once = False
    ticket = cluster.controller.post(CreateTopics([NewTopic(name="t", assignments=[(0, [1])])]))
    assert not cluster.host.done and not ticket.done and "t" not in cluster.image.topics
    cluster.log.commit(cluster.log.end_offset)
    assert cluster.host.done == [("place", "t", 0, 0)] and ticket.done


def test_dynamic_configs_of_this_broker_and_of_all_are_told(cluster):
    for name in ("1", "2", ""):
        resource = ResourceChanges(4, name, [Change("log.retention.ms", Kind.SET, "7")])
        assert cluster.submit(AlterConfigs([resource])) == [None]
    min_isr = {"min.insync.replicas": "1"}
    assert cluster.host.done == [
        ("configure broker", min_isr, {"log.retention.ms": "7"}),
        ("configure broker", {**min_isr, "log.retention.ms": "7"}, {"log.retention.ms": "7"}),
    ]


def test_a_start_looks_at_each_partition_once_however_long_its_history():
    cluster = Cluster()
    cluster.create("t", num_partitions=2)
    for _ in range(5):
        cluster.register(1)
    cluster.create("gone")
    cluster.submit(DeleteTopics([TopicReference("gone")]))
    host = RecordingHost()
    publisher = Publisher(1, MetadataImage(), host)
    publisher.apply(cluster.records())
    assert not host.done
    publisher.start()
    assert host.done == [
        ("configure broker", {"min.insync.replicas": "1"}, {}),
        ("place", "t", 0, 5), ("place", "t", 1, 5)]


def test_one_partition_that_cannot_be_placed_does_not_hold_up_the_others(cluster):
    place = cluster.host.place_partition

    def fail_once(topic, partition):
        if partition.index == 0:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, "disk full")
        place(topic, partition)

    cluster.host.place_partition = fail_once
    cluster.create("t", assignments=[(0, [1]), (1, [1])])
    assert cluster.host.done == [("place", "t", 1, 0)]
    assert "t" in cluster.image.topics


def test_what_is_committed_is_answered_even_if_its_observer_fails(cluster):
    def fail(records):
        raise RuntimeError("a bug")

    cluster.controller.on_commit = fail
    assert cluster.create("t").num_partitions == 1
    assert "t" in cluster.controller.machine.image.topics
