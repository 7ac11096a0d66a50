"""Leaders change the ISRs of their partitions through the controller (KIP-497)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.alter_partition import alter_partition
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.reassignments import Move, Reassign
from wirekafka.metadata.image.image import PartitionImage
from wirekafka.protocol.alter_partition import AlterPartitionRequest
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange, IsrMember

LEADER = 1


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1, 2, 3, 4)
    cluster.create("t", assignments=[(0, [1, 2, 3])], configs={"min.insync.replicas": "2"})
    return cluster


def partition(cluster: Cluster) -> PartitionImage:
    found = cluster.image.partition("t", 0)
    assert found is not None
    return found


def propose(
    cluster: Cluster, *isr: int, broker: int = LEADER, index: int = 0, **changed: Any
) -> DecidedIsr | Error:
    """The controller's decision on an ISR for partition t-0, with the epochs in the image."""
    present, brokers = partition(cluster), cluster.image.brokers
    broker_epoch = changed.pop("broker_epoch", brokers[broker].epoch)
    change = IsrChange(
        tuple(
            IsrMember(id, -1 if id == broker or id not in brokers else brokers[id].epoch)
            for id in isr
        ),
        present.leader_epoch,
        present.partition_epoch,
    )._replace(**changed)
    replica = cluster.image.topics["t"].id, index
    results = asyncio.run(
        cluster.controller_channel.alter_partition(broker, broker_epoch, {replica: change})
    )
    result = results[replica]
    return result.error if isinstance(result, KafkaError) else result


def test_an_isr_shrinks_and_grows_within_the_leader_epoch(cluster: Cluster) -> None:
    assert propose(cluster, 1, 2) == DecidedIsr(1, 0, (1, 2), 0, 1)
    assert propose(cluster, 1, 2, 3) == DecidedIsr(1, 0, (1, 2, 3), 0, 2)
    assert partition(cluster).isr == [1, 2, 3]
    assert (partition(cluster).leader_epoch, partition(cluster).partition_epoch) == (0, 2)


def test_an_unchanged_isr_is_confirmed_without_a_record(cluster: Cluster) -> None:
    before = cluster.log.end_offset
    assert propose(cluster, 1, 2, 3) == DecidedIsr(1, 0, (1, 2, 3), 0, 0)
    assert cluster.log.end_offset == before


def test_before_metadata_version_3_6_a_smaller_isr_starts_a_leader_epoch(cluster: Cluster) -> None:
    cluster.controller.machine.image.features["metadata.version"] = 11
    assert propose(cluster, 1, 2) is Error.NEW_LEADER_ELECTED
    assert (partition(cluster).leader, partition(cluster).leader_epoch) == (1, 1)
    assert propose(cluster, 1, 2, 3) == DecidedIsr(1, 1, (1, 2, 3), 0, 2)


def test_replicas_that_leave_below_the_minimum_stay_eligible_as_leaders(cluster: Cluster) -> None:
    propose(cluster, 1, 2)
    assert partition(cluster).eligible_leader_replicas == []
    propose(cluster, 1)
    assert partition(cluster).eligible_leader_replicas == [2]
    propose(cluster, 1, 3)
    assert partition(cluster).eligible_leader_replicas == []


def test_a_replica_that_a_reassignment_removes_is_no_eligible_leader(cluster: Cluster) -> None:
    """Added again later it is empty, and would lose the records of all as a clean leader."""
    propose(cluster, 1)
    assert partition(cluster).eligible_leader_replicas == [2, 3]
    cluster.submit(Reassign([Move("t", 0, [2, 3, 4])]))
    propose(cluster, 1, 4)
    found = partition(cluster)
    assert (found.replicas, found.isr, found.leader) == ([2, 3, 4], [4], 4)
    assert found.eligible_leader_replicas == [2, 3]


def test_an_added_replica_is_no_eligible_leader_though_kafka_has_kept_it_as_one(
    cluster: Cluster,
) -> None:
    """Apache Kafka's metadata log may name a replica that a reassignment had removed before."""
    propose(cluster, 1)
    cluster.controller.machine.image.topics["t"].partitions[0].eligible_leader_replicas = [2, 4]
    cluster.submit(Reassign([Move("t", 0, [1, 2, 4])]))
    assert partition(cluster).replicas == [1, 2, 4, 3]
    assert partition(cluster).eligible_leader_replicas == [2]


def test_a_recovering_leader_may_grow_the_isr_once_it_reports_its_recovery(
    cluster: Cluster,
) -> None:
    image = cluster.controller.machine.image
    present = image.topics["t"].partitions[0]
    present.isr, present.leader_recovery_state = [1], 1
    assert propose(cluster, 1, 2, leader_recovery_state=1) is Error.INVALID_REQUEST
    assert propose(cluster, 1, 2) == DecidedIsr(1, 0, (1, 2), 0, 1)
    assert propose(cluster, 1, leader_recovery_state=1) is Error.INVALID_REQUEST
    assert propose(cluster, 1, leader_recovery_state=2) is Error.INVALID_REQUEST


@pytest.mark.parametrize(
    ("isr", "changed", "error"),
    [
        ((1, 2), {"leader_epoch": 1}, Error.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 1}, Error.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, Error.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": -1}, Error.INVALID_UPDATE_VERSION),
        ((2, 1), {"broker": 2}, Error.INVALID_REQUEST),
        ((2, 3), {}, Error.INVALID_REQUEST),
        ((1, 1), {}, Error.INVALID_REQUEST),
        ((1, 4), {}, Error.INVALID_REQUEST),
        ((), {}, Error.INVALID_REQUEST),
        ((1, 2), {"index": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"members": (IsrMember(1, -1), IsrMember(2, 0))}, Error.INELIGIBLE_REPLICA),
    ],
)
def test_other_proposals_are_refused(
    cluster: Cluster, isr: tuple[int, ...], changed: dict[str, Any], error: Error
) -> None:
    before = cluster.log.end_offset
    assert propose(cluster, *isr, **changed) is error
    assert cluster.log.end_offset == before


def test_fenced_and_stopping_brokers_may_not_join(cluster: Cluster) -> None:
    cluster.beat(3, wants_shut_down=True)
    assert partition(cluster).isr == [1, 2]
    assert propose(cluster, 1, 2, 3) is Error.INELIGIBLE_REPLICA
    cluster.register(3, unfence=False)
    assert propose(cluster, 1, 2, 3) is Error.INELIGIBLE_REPLICA
    cluster.beat(3)
    assert isinstance(propose(cluster, 1, 2, 3), DecidedIsr)


def test_a_request_from_an_earlier_incarnation_is_refused_as_a_whole(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as caught:
        propose(cluster, 1, 2, broker_epoch=0)
    assert caught.value.error is Error.STALE_BROKER_EPOCH


def move(cluster: Cluster, *replicas: int) -> None:
    [error] = cluster.submit(Reassign([Move("t", 0, replicas)]))
    assert error is None


def test_a_reassignment_ends_once_every_added_replica_is_in_sync(cluster: Cluster) -> None:
    move(cluster, 1, 2, 4)
    assert partition(cluster).replicas == [1, 2, 4, 3]
    leader_epoch = partition(cluster).leader_epoch
    assert isinstance(propose(cluster, 1, 3), DecidedIsr), "broker 4 is still missing"
    assert propose(cluster, 1, 3, 4) is Error.NEW_LEADER_ELECTED
    done = partition(cluster)
    assert (done.replicas, done.isr, done.adding_replicas, done.removing_replicas) == (
        [1, 2, 4],
        [1, 4],
        [],
        [],
    )
    assert (done.leader, done.leader_epoch) == (1, leader_epoch + 1)
    assert done.directories == [bytes([id]) * 16 for id in (1, 2, 4)]


def test_a_smaller_replication_factor_needs_all_remaining_replicas_in_sync(
    cluster: Cluster,
) -> None:
    propose(cluster, 1, 2)
    move(cluster, 1, 3)
    assert partition(cluster).replicas == [1, 3, 2], "broker 3 is not in sync"
    assert propose(cluster, 1, 2, 3) is Error.NEW_LEADER_ELECTED
    assert (partition(cluster).replicas, partition(cluster).isr) == ([1, 3], [1, 3])


def test_a_reassignment_that_removes_the_leader_elects_another(cluster: Cluster) -> None:
    move(cluster, 4, 2, 3)
    assert propose(cluster, 1, 2, 3, 4) is Error.NEW_LEADER_ELECTED
    done = partition(cluster)
    assert (done.replicas, done.isr, done.leader) == ([4, 2, 3], [2, 3, 4], 4)
    assert done.leader_epoch == 1


def test_a_reassignment_that_only_adds_replicas_keeps_the_leader_epoch() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("t", assignments=[(0, [1, 2])])
    move(cluster, 1, 2, 3)
    assert propose(cluster, 1, 2, 3) == DecidedIsr(1, 0, (1, 2, 3), 0, 2)
    assert (partition(cluster).replicas, partition(cluster).adding_replicas) == ([1, 2, 3], [])


def test_version_2_has_no_broker_epochs_and_unknown_topics_are_reported(cluster: Cluster) -> None:
    kind = AlterPartitionRequest.TopicData
    request = AlterPartitionRequest(
        broker_id=LEADER,
        broker_epoch=cluster.image.brokers[LEADER].epoch,
        topics=[
            kind(
                topic_id=topic_id,
                partitions=[
                    kind.PartitionData(
                        partition_index=0, leader_epoch=0, new_isr=[1, 2], partition_epoch=0
                    )
                ],
            )
            for topic_id in (cluster.image.topics["t"].id, b"?" * 16)
        ],
    )
    response = cluster.call(alter_partition, request, 2)
    [[found], [unknown]] = [topic.partitions for topic in response.topics]
    assert (found.error_code, found.isr, found.partition_epoch) == (0, [1, 2], 1)
    assert unknown.error_code == Error.UNKNOWN_TOPIC_ID
