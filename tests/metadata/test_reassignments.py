"""Reassignments move partitions to other replicas, and can be cancelled (KIP-455)."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.alter_partition_reassignments import alter_partition_reassignments
from wirekafka.apis.list_partition_reassignments import list_partition_reassignments
from wirekafka.errors import Error
from wirekafka.protocol.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wirekafka.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest


@pytest.fixture
def cluster():
    cluster = Cluster(1, 2, 3)
    cluster.create("t", assignments=[(0, [1, 2]), (1, [1, 3])])
    return cluster


def move(cluster, topic, partitions, *, version=1, may_change_factor=True):
    """Reassign partitions to replicas; returns (error code, message) of each."""
    asked = AlterPartitionReassignmentsRequest.ReassignableTopic
    response = cluster.call(
        alter_partition_reassignments,
        AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change_factor,
            topics=[
                asked(
                    name=topic,
                    partitions=[
                        asked.ReassignablePartition(partition_index=index, replicas=replicas)
                        for index, replicas in partitions.items()
                    ],
                )
            ],
        ),
        version,
    )
    [topic] = response.responses
    return [(each.error_code, each.error_message) for each in topic.partitions]


def moving(cluster, *asked):
    topic = ListPartitionReassignmentsRequest.Topics
    response = cluster.call(
        list_partition_reassignments,
        ListPartitionReassignmentsRequest(
            topics=[topic(name=name, partition_indexes=indexes) for name, indexes in asked] or None
        ),
        0,
    )
    return [
        (
            topic.name,
            each.partition_index,
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    ]


def test_a_reassignment_to_the_same_replicas_changes_nothing(cluster):
    before = cluster.log.end_offset
    assert move(cluster, "t", {0: [1, 2]}) == [(0, None)]
    assert cluster.log.end_offset == before
    assert moving(cluster) == []


def test_a_reassignment_to_in_sync_replicas_completes_at_once(cluster):
    assert move(cluster, "t", {0: [2]}) == [(0, None)]
    partition = cluster.image.partition("t", 0)
    assert (partition.replicas, partition.isr, partition.leader) == ([2], [2], 2)
    assert partition.leader_epoch == 1
    assert moving(cluster) == []


def test_another_order_changes_the_preferred_leader_but_not_the_leader(cluster):
    move(cluster, "t", {0: [2, 1]})
    partition = cluster.image.partition("t", 0)
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ([2, 1], 1, 0)
    assert partition.directories == [bytes([2]) * 16, bytes([1]) * 16]


def test_a_new_replica_is_added_before_an_old_one_is_removed(cluster):
    assert move(cluster, "t", {0: [1, 3]}) == [(0, None)]
    assert moving(cluster) == [("t", 0, [1, 3, 2], [3], [2])]
    assert moving(cluster, ("t", [0, 1, 9]), ("no", [0])) == moving(cluster)
    assert moving(cluster, ("t", [1])) == []


def test_a_cancelled_reassignment_restores_the_replicas(cluster):
    move(cluster, "t", {0: [3]})
    assert move(cluster, "t", {0: None}) == [(0, None)]
    partition = cluster.image.partition("t", 0)
    assert (partition.replicas, partition.isr, partition.leader) == ([1, 2], [1, 2], 1)
    assert moving(cluster) == []


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (None, (Error.NO_REASSIGNMENT_IN_PROGRESS, None)),
        (
            [],
            (
                Error.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes an empty replica list.",
            ),
        ),
        (
            [1, 1],
            (
                Error.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes the broker 1 more than once.",
            ),
        ),
        (
            [1, 99],
            (
                Error.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes "
                "broker 99, but no such broker is registered.",
            ),
        ),
    ],
)
def test_invalid_reassignments_are_refused(cluster, replicas, expected):
    assert move(cluster, "t", {0: replicas}) == [expected]


def test_unknown_partitions_and_unknown_topics_have_their_own_messages(cluster):
    unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, "no", {0: [1]}) == [(unknown, "Unable to find a topic named no.")]
    assert move(cluster, "t", {7: [1], 1: [1]}) == [
        (unknown, "Unable to find partition t:7."),
        (0, None),
    ]


def test_the_replication_factor_stays_when_it_must_not_change(cluster):
    assert move(cluster, "t", {0: [3]}, may_change_factor=False) == [
        (Error.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 2 to 1")
    ]
    assert move(cluster, "t", {0: [3, 2]}, may_change_factor=False) == [(0, None)]
