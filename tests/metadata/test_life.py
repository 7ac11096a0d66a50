"""Brokers start and stop: registrations, leadership, producer ids, features."""

import asyncio
from types import SimpleNamespace

import pytest

from tests.metadata.cluster import Cluster
from tests.metadata.test_isr_changes import propose
from wirekafka.apis.elect_leaders import elect_leaders
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.elections import ElectionType, ElectLeaders
from wirekafka.metadata.controller.features import FeatureUpdate, UpdateFeatures
from wirekafka.metadata.controller.heartbeats import BrokerHeartbeat
from wirekafka.metadata.controller.producer_ids import AllocateProducerIds
from wirekafka.metadata.controller.registration import UnregisterBroker
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.records import metadata as r


@pytest.fixture
def cluster():
    return Cluster()


def epoch(cluster, id=1):
    return cluster.image.brokers[id].epoch


def partition(cluster):
    return cluster.image.topics["t"].partitions[0]


def test_a_new_cluster_begins_with_kafkas_bootstrap_transaction(cluster):
    first = cluster.log.batches[0]
    assert len(first) and [type(record) for record in cluster.records()[:9]] == [
        r.BeginTransactionRecord,
        *[r.FeatureLevelRecord] * 6,
        r.ConfigRecord,
        r.EndTransactionRecord,
    ]
    assert cluster.image.features == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert cluster.image.config(4, "") == {"min.insync.replicas": "1"}


def test_a_controlled_stop_is_written_as_kafka_writes_it(cluster):
    cluster.create("t")
    before = cluster.log.end_offset
    cluster.beat(1, wants_shut_down=True)
    stopping, change, fenced = cluster.records(before)
    assert stopping.in_controlled_shutdown == 1
    assert (change.isr, change.leader) == ([], -1)
    assert (change.eligible_leader_replicas, change.last_known_elr) == ([1], [1])
    assert fenced.fenced == 1
    assert cluster.image.brokers[1].fenced


def test_an_unregistered_broker_loses_its_leaderships_and_its_registration():
    cluster = Cluster(1, 2)
    cluster.create("t", assignments=[(0, [2, 1])])
    before, registered = cluster.log.end_offset, epoch(cluster, 2)
    cluster.submit(UnregisterBroker(2))
    change, gone = cluster.records(before)
    assert (change.isr, change.leader) == ([1], 1)
    assert gone == r.UnregisterBrokerRecord(broker_id=2, broker_epoch=registered)
    assert list(cluster.image.brokers) == [1]


def test_only_a_registered_broker_can_be_unregistered(cluster):
    with pytest.raises(KafkaError) as caught:
        cluster.submit(UnregisterBroker(9))
    assert (caught.value.error, caught.value.message) == (
        Error.BROKER_ID_NOT_REGISTERED,
        "Broker ID 9 is not currently registered",
    )


def test_a_broker_that_comes_back_leads_again_in_a_new_epoch(cluster):
    cluster.create("t")
    cluster.beat(1, wants_shut_down=True)
    assert (partition(cluster).leader, partition(cluster).leader_epoch) == (-1, 1)
    cluster.register(1)
    found = partition(cluster)
    assert (found.leader, found.leader_epoch, found.isr) == (1, 2, [1])
    assert (found.eligible_leader_replicas, found.last_known_elr) == ([], [])


def test_after_a_crash_the_leader_epoch_moves_too(cluster):
    """KAFKA-18106: otherwise nobody would notice that records may be lost."""
    cluster.create("t")
    cluster.register(1, unfence=False)
    found = partition(cluster)
    assert (found.leader, found.leader_epoch, found.isr) == (-1, 1, [])
    assert (found.eligible_leader_replicas, found.last_known_elr) == ([1], [1])
    cluster.beat(1)
    found = partition(cluster)
    assert (found.leader, found.leader_epoch, found.isr) == (1, 2, [1])
    assert found.leader_recovery_state == 0


def test_after_an_unclean_shutdown_the_last_leader_is_elected_uncleanly(cluster):
    cluster.create("t")
    cluster.register(1, unfence=False, previous_epoch=-1)
    found = partition(cluster)
    assert (found.leader, found.isr) == (-1, [])
    assert (found.eligible_leader_replicas, found.last_known_elr) == ([], [1])
    cluster.beat(1)
    found = partition(cluster)
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, [1], 1)


def test_the_epoch_of_an_earlier_registration_is_fenced(cluster):
    with pytest.raises(KafkaError) as caught:
        cluster.submit(
            BrokerHeartbeat(broker_id=1, broker_epoch=epoch(cluster) - 1, metadata_offset=99)
        )
    assert caught.value.error is Error.STALE_BROKER_EPOCH


def test_leadership_goes_to_another_replica_in_sync():
    cluster = Cluster(1, 2)
    cluster.create("t", assignments=[(0, [1, 2])])
    cluster.beat(1, wants_shut_down=True)
    found = partition(cluster)
    assert (found.leader, found.isr) == (2, [2])


def test_the_preferred_leader_is_elected_on_demand():
    cluster = Cluster(1, 2)
    cluster.create("t", assignments=[(0, [1, 2])])
    cluster.beat(1, wants_fence=True)
    cluster.beat(1)
    propose(cluster, 2, 1, broker=2)
    assert partition(cluster).leader == 2
    [(_, _, error)] = cluster.submit(ElectLeaders(ElectionType.PREFERRED, [("t", 0)]))
    assert error is None
    assert partition(cluster).leader == 1


def test_an_election_that_is_not_needed_is_refused(cluster):
    cluster.create("t")
    reply = cluster.submit(ElectLeaders(ElectionType.PREFERRED, [("t", 0), ("t", 9), ("no", 0)]))
    assert [(error.error, error.message) for *_, error in reply] == [
        (Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as no"),
    ]
    response = cluster.call(elect_leaders, ElectLeadersRequest(topic_partitions=None), 2)
    [topic] = response.replica_election_results
    assert (topic.topic, topic.partition_result) == ("t", [])


def test_a_leader_can_be_elected_uncleanly_where_nobody_is_in_sync(cluster):
    topic_id = cluster.create("t").id
    for image in (cluster.image, cluster.controller.machine.image):
        image.replay(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[], leader=-1))
    [(_, _, error)] = cluster.submit(ElectLeaders(ElectionType.UNCLEAN, [("t", 0)]))
    found = partition(cluster)
    assert error is None
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, [1], 1)


def test_producer_ids_are_recorded_before_use_and_never_given_twice(cluster):
    async def take(count):
        return [await cluster.producer_ids.next() for _ in range(count)]

    assert asyncio.run(take(1001)) == list(range(1001))
    assert cluster.image.next_producer_id == 2000
    cluster.controller.load()
    block = cluster.submit(AllocateProducerIds(1, epoch(cluster)))
    assert (block.first, block.end) == (2000, 3000)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (
            ("metadata.version", 32, 1),
            "Invalid update version 32 for feature metadata.version. Can't "
            "downgrade the version of this feature without setting the upgrade "
            "type to either safe or "
            "unsafe downgrade.",
        ),
        (
            ("metadata.version", 25, 2),
            "Unsupported metadata.version downgrade from 33 to 25. Refusing "
            "to perform the requested downgrade because it might delete metadata information.",
        ),
        (
            ("metadata.version", 7, 3),
            "Unsupported metadata.version downgrade from 33 to 7. Unsafe "
            "metadata downgrade is not supported in this version.",
        ),
        (
            ("metadata.version", 34, 1),
            "Invalid update version 34 for feature metadata.version. Local "
            "controller 1 only supports versions 7-33",
        ),
        (
            ("metadata.version", 0, 3),
            "Invalid update version 0 for feature metadata.version. Local "
            "controller 1 only supports versions 7-33",
        ),
        (
            ("foo", 1, 1),
            "Invalid update version 1 for feature foo. Local controller 1 does not support "
            "this feature.",
        ),
        (
            ("metadata.version", 33, 9),
            "Invalid update version 33 for feature metadata.version. The "
            "controller does not support the given upgrade type.",
        ),
        (
            ("transaction.version", 3, 1),
            "Invalid update version 3 for feature transaction.version. "
            "Local controller 1 only supports versions 0-2",
        ),
        (
            ("transaction.version", -1, 1),
            "Invalid update version -1 for feature transaction.version. A "
            "feature version cannot be less than 0.",
        ),
    ],
)
def test_feature_updates_are_refused_in_kafkas_words(cluster, update, message):
    with pytest.raises(KafkaError) as caught:
        cluster.submit(UpdateFeatures([FeatureUpdate(*update)]))
    assert (caught.value.error, caught.value.message) == (Error.INVALID_UPDATE_VERSION, message)


@pytest.mark.parametrize(
    ("current", "target", "is_allowed"),
    [
        (31, 30, True),
        (32, 31, False),
        (33, 32, False),
        (30, 29, False),
        (29, 23, True),
        (29, 22, False),
        (22, 17, True),
        (11, 10, False),
        (10, 8, True),
    ],
)
def test_metadata_versions_without_new_records_can_be_downgraded(current, target, is_allowed):
    image = MetadataImage()
    image.replay(r.FeatureLevelRecord(name="metadata.version", feature_level=current))
    state = SimpleNamespace(image=image, config=BrokerConfig.of(), voters=tuple)
    down = UpdateFeatures([FeatureUpdate("metadata.version", target, 2)])
    if is_allowed:
        [record] = down.decide(state, 0).records
        assert (record.name, record.feature_level) == ("metadata.version", target)
    else:
        with pytest.raises(KafkaError, match=f"downgrade from {current} to {target}"):
            down.decide(state, 0)


@pytest.mark.parametrize("upgrade_type", [2, 3])
def test_voters_once_kept_in_the_log_stay_there(cluster, upgrade_type):
    down = FeatureUpdate("kraft.version", 0, upgrade_type)
    with pytest.raises(KafkaError) as caught:
        cluster.submit(UpdateFeatures([down], kraft_version=1))
    assert caught.value.message == (
        "Invalid update version 0 for feature kraft.version. Can't "
        "downgrade the version of this feature."
    )


def test_the_kraft_version_is_not_in_the_metadata_records(cluster):
    cluster.submit(UpdateFeatures([FeatureUpdate("kraft.version", 1, 1)]))
    assert "kraft.version" not in cluster.image.features


def test_feature_updates_take_effect_all_or_none(cluster):
    good, bad = FeatureUpdate("transaction.version", 1, 2), FeatureUpdate("foo", 1, 1)
    with pytest.raises(KafkaError):
        cluster.submit(UpdateFeatures([good, bad]))
    assert cluster.image.features["transaction.version"] == 2
    cluster.submit(UpdateFeatures([good]))
    assert cluster.image.features["transaction.version"] == 1


def test_an_unregistered_controller_is_removed():
    image = MetadataImage()
    image.replay(r.RegisterControllerRecord(controller_id=7))
    image.replay(r.UnregisterControllerRecord(controller_id=8))
    assert list(image.controllers) == [7]
    image.replay(r.UnregisterControllerRecord(controller_id=7))
    assert not image.controllers
