"""Brokers register, keep their sessions by heartbeats, and are fenced or stop."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.assign_replicas_to_dirs import assign_replicas_to_dirs
from wirekafka.apis.broker_heartbeat import broker_heartbeat
from wirekafka.apis.broker_registration import broker_registration
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.controller.sessions import GRACE_MS
from wirekafka.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wirekafka.protocol.broker_heartbeat import BrokerHeartbeatRequest
from wirekafka.protocol.broker_registration import BrokerRegistrationRequest
from wirekafka.protocol.records import metadata as r

TIMEOUT_MS = 9_000


@pytest.fixture
def cluster():
    """The controller's own broker, 1, and another one, 2."""
    cluster = Cluster(1, 2)
    cluster.create("t", assignments=[(0, [2, 1])])
    return cluster


def registration(cluster, broker=2, **changed):
    kind = BrokerRegistrationRequest
    values = {
        "broker_id": broker,
        "cluster_id": cluster.cluster_id,
        "incarnation_id": b"new" + bytes(13),
        "rack": None,
        "log_dirs": [bytes([broker]) * 16],
        "listeners": [kind.Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        "features": [
            kind.Feature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in SUPPORTED.items()
        ],
    }
    return kind(**{**values, **changed})


def register(cluster, *args, **changed):
    return cluster.call(broker_registration, registration(cluster, *args, **changed), 4)


def refusal(cluster, *args, **changed):
    before = cluster.log.end_offset
    with pytest.raises(KafkaError) as caught:
        register(cluster, *args, **changed)
    assert cluster.log.end_offset == before
    return caught.value.error


def silence(cluster, ms, *brokers):
    """Let time pass in which only these brokers send heartbeats."""
    for _ in range(0, ms, 100):
        cluster.clock.advance(100)
        for broker in brokers:
            cluster.beat(broker)


def test_a_live_broker_is_not_replaced_by_another_with_its_id(cluster):
    assert refusal(cluster) is Error.DUPLICATE_BROKER_REGISTRATION
    assert refusal(cluster, 1) is Error.DUPLICATE_BROKER_REGISTRATION


def test_a_broker_that_was_killed_registers_once_its_session_is_over(cluster):
    silence(cluster, TIMEOUT_MS - 100, 1)
    assert refusal(cluster) is Error.DUPLICATE_BROKER_REGISTRATION
    silence(cluster, 100 + GRACE_MS, 1)
    assert register(cluster).broker_epoch == cluster.log.end_offset - 1


def test_a_broker_that_shut_down_registers_again_once_its_session_is_over(cluster):
    cluster.beat(2, wants_shut_down=True)
    assert cluster.image.brokers[2].registration.in_controlled_shutdown
    assert refusal(cluster) is Error.DUPLICATE_BROKER_REGISTRATION
    cluster.beat(1)
    assert cluster.beat(2, wants_shut_down=True).should_shut_down
    assert refusal(cluster) is Error.DUPLICATE_BROKER_REGISTRATION, "as Apache Kafka 4.4.0"
    silence(cluster, TIMEOUT_MS + GRACE_MS, 1)
    assert register(cluster).error_code == 0


def test_a_fenced_broker_is_not_replaced_while_it_sends_heartbeats(cluster):
    cluster.beat(2, wants_fence=True)
    assert refusal(cluster) is Error.DUPLICATE_BROKER_REGISTRATION


def test_a_registration_without_a_heartbeat_begins_no_session(cluster):
    register(cluster, 3)
    assert register(cluster, 3, incarnation_id=b"newer" + bytes(11)).error_code == 0


def test_a_repeated_registration_keeps_its_epoch_and_stays_unfenced(cluster):
    known = cluster.image.brokers[2]
    again = register(cluster, incarnation_id=known.registration.incarnation_id)
    assert again.broker_epoch == known.epoch
    assert not cluster.image.brokers[2].fenced


def test_the_controllers_own_broker_registers_without_waiting_for_its_old_session(cluster):
    cluster.controller.load()  # As after kill -9.
    assert register(cluster, 1).error_code == 0
    assert refusal(cluster, 2) is Error.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"cluster_id": "another"}, Error.INCONSISTENT_CLUSTER_ID),
        ({"features": []}, Error.INVALID_REGISTRATION),
        ({"log_dirs": []}, Error.INVALID_REGISTRATION),
        ({"log_dirs": [b"x" * 16] * 2}, Error.INVALID_REGISTRATION),
        ({"log_dirs": [bytes([1]) * 16]}, Error.INVALID_REGISTRATION),
    ],
)
def test_an_invalid_registration_is_refused(cluster, changed, error):
    assert refusal(cluster, 3, **changed) is error


def test_a_feature_beyond_the_brokers_range_is_refused(cluster):
    features = [
        BrokerRegistrationRequest.Feature(
            name=name,
            min_supported_version=first,
            max_supported_version=1 if name == "transaction.version" else last,
        )
        for name, (first, last) in SUPPORTED.items()
    ]
    assert refusal(cluster, 3, features=features) is Error.UNSUPPORTED_VERSION


def test_a_broker_is_unfenced_once_it_has_its_own_registration(cluster):
    epoch = register(cluster, 3).broker_epoch

    def beat(**values):
        response = cluster.call(
            broker_heartbeat, BrokerHeartbeatRequest(broker_id=3, broker_epoch=epoch, **values), 2
        )
        return response.is_caught_up, response.is_fenced, response.should_shut_down

    assert beat(current_metadata_offset=epoch - 1) == (False, True, False)
    assert beat(current_metadata_offset=epoch, want_fence=True) == (True, True, False)
    before = cluster.log.end_offset
    assert beat(current_metadata_offset=epoch, cordoned_log_dirs=[]) == (True, False, False)
    assert [type(record) for record in cluster.records(before)] == [
        r.BrokerRegistrationChangeRecord
    ] * 2
    assert beat(current_metadata_offset=epoch, want_fence=True) == (True, True, False)
    assert cluster.image.brokers[3].fenced


@pytest.mark.parametrize(
    ("broker", "error"), [(2, Error.STALE_BROKER_EPOCH), (9, Error.STALE_BROKER_EPOCH)]
)
def test_a_heartbeat_with_another_id_or_epoch_is_refused(cluster, broker, error):
    with pytest.raises(KafkaError) as caught:
        cluster.call(
            broker_heartbeat,
            BrokerHeartbeatRequest(broker_id=broker, broker_epoch=1, current_metadata_offset=99),
            2,
        )
    assert caught.value.error is error


def test_a_broker_that_falls_silent_is_fenced_and_others_lead(cluster):
    silence(cluster, TIMEOUT_MS - 100, 1)
    assert not cluster.image.brokers[2].fenced
    silence(cluster, 100 + GRACE_MS, 1)
    assert cluster.image.brokers[2].fenced
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, [1])


def test_an_unread_heartbeat_at_the_end_of_the_session_still_counts(cluster):
    cluster.clock.advance(TIMEOUT_MS)
    cluster.beat(2)
    silence(cluster, TIMEOUT_MS - 100)
    assert not cluster.image.brokers[2].fenced


def test_time_in_which_the_controller_was_suspended_ends_no_session(cluster):
    cluster.clock.sleep(10 * TIMEOUT_MS)
    silence(cluster, GRACE_MS)
    assert not cluster.image.brokers[2].fenced
    silence(cluster, TIMEOUT_MS, 1)
    assert cluster.image.brokers[2].fenced


def test_the_controllers_own_broker_is_never_fenced_by_time(cluster):
    silence(cluster, 10 * TIMEOUT_MS)
    cluster.clock.sleep(10 * TIMEOUT_MS)
    silence(cluster, TIMEOUT_MS)
    assert not cluster.image.brokers[1].fenced and cluster.image.brokers[2].fenced


def test_a_broker_may_stop_once_the_others_know_the_new_leaders(cluster):
    behind = cluster.log.end_offset - 1
    assert not cluster.beat(2, wants_shut_down=True).should_shut_down
    assert cluster.image.topics["t"].partitions[0].leader == 1
    epoch = cluster.image.brokers[1].epoch
    cluster.call(
        broker_heartbeat,
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=behind),
        2,
    )
    assert not cluster.beat(2, wants_shut_down=True).should_shut_down
    cluster.beat(1)
    before = cluster.log.end_offset
    assert cluster.beat(2, wants_shut_down=True).should_shut_down
    [fenced] = cluster.records(before)
    assert (fenced.broker_id, fenced.fenced) == (2, 1)


def test_each_directory_assignment_has_its_own_result(cluster):
    topic_id = cluster.image.topics["t"].id
    kind = AssignReplicasToDirsRequest.DirectoryData

    def topic(id, *indexes):
        part = kind.TopicData
        return part(
            topic_id=id, partitions=[part.PartitionData(partition_index=index) for index in indexes]
        )

    cluster.create("others", assignments=[(0, [1])])
    others_id = cluster.image.topics["others"].id
    request = AssignReplicasToDirsRequest(
        broker_id=2,
        broker_epoch=cluster.image.brokers[2].epoch,
        directories=[
            kind(
                id=b"d" * 16,
                topics=[topic(topic_id, 0, 7), topic(b"?" * 16, 0), topic(others_id, 0)],
            )
        ],
    )
    response = cluster.call(assign_replicas_to_dirs, request, 0)
    [directory] = response.directories
    assert [[each.error_code for each in topic.partitions] for topic in directory.topics] == [
        [Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION],
        [Error.UNKNOWN_TOPIC_ID],
        [Error.NOT_LEADER_OR_FOLLOWER],
    ]
    assert cluster.image.topics["t"].partitions[0].directories[0] == b"d" * 16
    request.broker_epoch -= 1
    with pytest.raises(KafkaError) as caught:
        cluster.call(assign_replicas_to_dirs, request, 0)
    assert caught.value.error is Error.STALE_BROKER_EPOCH
