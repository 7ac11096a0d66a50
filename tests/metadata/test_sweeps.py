"""A broker in thousands of ISRs is fenced in portions, between which others are served."""

from __future__ import annotations

import pytest

from tests.metadata.cluster import Cluster
from tests.metadata.test_isr_changes import propose
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.registration import UnregisterBroker
from wirekafka.metadata.controller.sessions import GRACE_MS
from wirekafka.metadata.controller.sweep import PORTION
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.records import metadata as r

TIMEOUT_MS = 9_000


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers; 2 leads a topic of several portions, and a small one."""
    cluster = Cluster(1, 2, 3)
    cluster.create("big", assignments=[(index, [2, 3, 1]) for index in range(2 * PORTION + 10)])
    cluster.create("t", assignments=[(0, [2, 3])])
    return cluster


def led_by(cluster: Cluster, broker: int) -> int:
    image = cluster.controller.machine.image
    return sum(
        partition.leader == broker
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )


def is_sweeping(cluster: Cluster) -> bool:
    return bool(cluster.controller.machine.state.sweeps)


def kinds(cluster: Cluster, since: int) -> list[type]:
    return [type(record) for record in cluster.records(since)]


def test_a_broker_with_many_partitions_is_fenced_last(cluster: Cluster) -> None:
    before = cluster.log.end_offset
    assert cluster.beat(2, wants_fence=True).is_fenced
    assert is_sweeping(cluster) and not cluster.image.brokers[2].fenced
    assert len(kinds(cluster, before)) == PORTION
    cluster.clock.advance(1)
    assert not is_sweeping(cluster) and cluster.image.brokers[2].fenced
    assert kinds(cluster, before)[-1] is r.BrokerRegistrationChangeRecord
    assert led_by(cluster, 2) == 0 and led_by(cluster, 3) == 2 * PORTION + 11


def test_a_broker_that_is_being_fenced_is_inactive(cluster: Cluster) -> None:
    cluster.beat(2, wants_fence=True)
    assert is_sweeping(cluster)
    cluster.create("new", assignments=[(0, [2, 1])])
    assert cluster.image.topics["new"].partitions[0].isr == [1]
    assert cluster.beat(2) == (True, True, False), "it is served as a fenced one"
    with pytest.raises(KafkaError) as caught:
        cluster.submit(UnregisterBroker(2))
    assert caught.value.error is Error.REQUEST_TIMED_OUT
    cluster.clock.advance(1)
    assert propose(cluster, 3, 2, broker=3) is Error.INELIGIBLE_REPLICA


def test_partitions_that_change_or_vanish_meanwhile_are_left_alone(cluster: Cluster) -> None:
    cluster.beat(2, wants_fence=True)
    cluster.submit(DeleteTopics([TopicReference("big")]))
    cluster.clock.advance(1)
    assert cluster.image.brokers[2].fenced and led_by(cluster, 3) == 1


def test_a_new_controller_fences_a_broker_whose_fencing_was_interrupted(cluster: Cluster) -> None:
    cluster.beat(2, wants_fence=True)
    cluster.controller.load()
    assert not is_sweeping(cluster) and led_by(cluster, 2)
    for _ in range(0, TIMEOUT_MS + 2 * GRACE_MS, 100):
        cluster.clock.advance(100)
        cluster.beat(3)
    assert cluster.image.brokers[2].fenced and not led_by(cluster, 2)


def test_a_controlled_shutdown_waits_until_all_leaderships_have_moved(cluster: Cluster) -> None:
    assert not cluster.beat(2, wants_shut_down=True).should_shut_down
    assert is_sweeping(cluster)
    for _ in range(2):
        cluster.beat(1)
        cluster.beat(3)
        assert not cluster.beat(2, wants_shut_down=True).should_shut_down
        cluster.clock.advance(1)
    assert led_by(cluster, 2) == 0
    for id in (2, 1, 3):
        cluster.beat(id, wants_shut_down=id == 2)
    assert cluster.beat(2, wants_shut_down=True).should_shut_down


def test_a_broker_that_returns_leads_all_its_partitions_again() -> None:
    cluster = Cluster(1, 2)
    cluster.create("big", assignments=[(index, [2]) for index in range(2 * PORTION + 10)])
    cluster.beat(2, wants_fence=True)
    cluster.clock.advance(1)
    assert led_by(cluster, -1) == 2 * PORTION + 10
    assert not cluster.beat(2).is_fenced
    assert led_by(cluster, 2) == PORTION
    cluster.clock.advance(1)
    assert led_by(cluster, 2) == 2 * PORTION + 10


def test_a_registration_waits_until_lost_replicas_are_no_eligible_leaders() -> None:
    cluster = Cluster(1, 2)
    cluster.create("big", assignments=[(index, [2]) for index in range(2 * PORTION + 10)])
    cluster.controller.machine.state.sessions.end(2)
    ticket = cluster.begin_registration(2, previous_epoch=-1)
    assert not ticket.done and is_sweeping(cluster)
    cluster.clock.advance(1)
    epoch = ticket.result()
    assert cluster.image.brokers[2].epoch == epoch
    partitions = cluster.image.topics["big"].partitions.values()
    assert not any(each.isr or each.eligible_leader_replicas for each in partitions)
    cluster.beat(2)
    cluster.clock.advance(1)
    assert led_by(cluster, 2) == 2 * PORTION + 10
