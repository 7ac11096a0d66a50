"""What the active controller does without being asked: elections at intervals, NoOp records."""

from __future__ import annotations

import pytest

from tests.metadata.cluster import Cluster, EmptyCluster
from tests.metadata.test_isr_changes import propose
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from wirekafka.metadata.controller.features import AbortTransaction, Bootstrap, bootstrap_features
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.metadata.image.image import TOPIC
from wirekafka.protocol.records import metadata as r
from wirekafka.runtime.runtime import Runtime

INTERVAL_S = 300


def pass_time(cluster: Cluster, seconds: int, *brokers: int) -> None:
    """Let time pass in which these brokers send heartbeats."""
    for _ in range(seconds):
        cluster.clock.advance(1_000)
        for broker in brokers:
            cluster.beat(broker)


def leader(cluster: Cluster) -> int:
    return cluster.controller.machine.image.topics["t"].partitions[0].leader


def imbalanced(**settings: str) -> Cluster:
    """A partition that broker 2 leads, although 1 is preferred."""
    cluster = Cluster(1, 2, **settings)
    cluster.create("t", assignments=[(0, [1, 2])])
    cluster.beat(1, wants_fence=True)
    cluster.beat(1)
    propose(cluster, 2, 1, broker=2)
    assert leader(cluster) == 2
    return cluster


def test_leadership_returns_to_preferred_replicas_after_an_interval() -> None:
    cluster = imbalanced()
    pass_time(cluster, INTERVAL_S - 1, 2)
    assert leader(cluster) == 2
    pass_time(cluster, 1, 2)
    assert leader(cluster) == 1


@pytest.mark.long
def test_leadership_stays_where_it_is_without_rebalancing() -> None:
    cluster = imbalanced(auto_leader_rebalance_enable="false")
    pass_time(cluster, 2 * INTERVAL_S, 2)
    assert leader(cluster) == 2


def test_many_leaderships_return_in_batches() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", assignments=[(index, [1, 2]) for index in range(700)])
    cluster.beat(1, wants_fence=True)
    cluster.clock.advance(1)
    cluster.beat(1)
    topic = cluster.image.topics["t"]
    for index, partition in topic.partitions.items():
        topic_changes = r.PartitionChangeRecord(partition_id=index, topic_id=topic.id, isr=[2, 1])
        cluster.controller.machine.replay(topic_changes)
        assert partition.leader == 2
    batches = len(cluster.log.batches)
    pass_time(cluster, INTERVAL_S + 1, 2)
    elections = [
        len(records)
        for records in cluster.batches()[batches:]
        if isinstance(records[0], r.PartitionChangeRecord)
    ]
    assert elections == [300, 300, 100]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_unclean_elections_are_held_where_a_topic_allows_them(is_allowed: bool) -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", assignments=[(0, [2, 1])])
    propose(cluster, 2, broker=2)
    cluster.beat(2, wants_fence=True)
    assert leader(cluster) == -1
    if is_allowed:
        change = ConfigChange("unclean.leader.election.enable", ConfigOperation.SET, "true")
        cluster.submit(AlterConfigs([ResourceChanges(TOPIC, "t", [change])]))
    pass_time(cluster, INTERVAL_S)
    assert leader(cluster) == (1 if is_allowed else -1)
    if is_allowed:
        partition = cluster.image.topics["t"].partitions[0]
        assert (partition.isr, partition.leader_recovery_state) == ([1], 1)


def no_ops(cluster: Cluster) -> int:
    return sum(isinstance(record, r.NoOpRecord) for record in cluster.records())


def test_a_lone_node_writes_no_no_op_records() -> None:
    cluster = Cluster(1)
    pass_time(cluster, 60)
    assert no_ops(cluster) == 0


def test_no_op_records_are_written_while_other_brokers_follow() -> None:
    cluster = Cluster(1)
    cluster.register(2)
    pass_time(cluster, 10, 2)
    begun = no_ops(cluster)
    pass_time(cluster, 10, 2)
    assert no_ops(cluster) - begun == 20


def test_no_op_records_can_be_switched_off() -> None:
    cluster = Cluster(1, 2, metadata_max_idle_interval_ms="0")
    pass_time(cluster, 10, 2)
    assert no_ops(cluster) == 0


def test_a_new_controller_aborts_the_bootstrap_that_another_has_begun() -> None:
    cluster = EmptyCluster()
    begun = [r.BeginTransactionRecord(name="Bootstrap records"), *bootstrap_features()[:2]]
    taken_over = Runtime(cluster.new_machine, cluster.log, MetadataCodec(), cluster.clock)
    cluster.log.batches.clear()
    cluster.log.end_offset = cluster.log.committed_offset = 0
    cluster.log.append(MetadataCodec().encode(begun, 0, None))
    taken_over.load()
    assert taken_over.machine.image.in_transaction
    for command in (AbortTransaction(), Bootstrap(bootstrap_features())):
        taken_over.post(command).result()
    found = cluster.records()
    assert found[3] == r.AbortTransactionRecord(reason="Controller failover")
    assert isinstance(found[-1], r.EndTransactionRecord)
    assert taken_over.machine.image.features["metadata.version"] == 33
