"""DescribeTopicPartitions, DescribeCluster, ElectLeaders and UpdateFeatures."""

import asyncio

import pytest

from tests.metadata.cluster import CLUSTER_ID, Cluster
from wirekafka.apis.describe_cluster import describe_cluster
from wirekafka.apis.describe_topic_partitions import describe_topic_partitions
from wirekafka.apis.elect_leaders import elect_leaders, elect_leaders_failure
from wirekafka.apis.init_producer_id import init_producer_id
from wirekafka.apis.shared.call import Call
from wirekafka.apis.unregister_broker import unregister_broker
from wirekafka.apis.update_features import update_features
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.describe_cluster import DescribeClusterRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.elect_leaders import ElectLeadersRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.role.quorum = Quorum()
    cluster.create("a", num_partitions=3)
    cluster.create("b", num_partitions=2)
    return cluster


def page(cluster, *names, limit=2000, cursor=None):
    if cursor is not None:
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=cursor[0], partition_index=cursor[1]
        )
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    response = cluster.call(describe_topic_partitions, request, 0)
    described = [
        (topic.name, topic.error_code, [p.partition_index for p in topic.partitions])
        for topic in response.topics
    ]
    following = response.next_cursor
    return described, following and (following.topic_name, following.partition_index)


def test_topics_are_described_in_the_order_of_their_names(cluster):
    assert page(cluster, "b", "a", "b") == ([("a", 0, [0, 1, 2]), ("b", 0, [0, 1])], None)
    assert page(cluster) == page(cluster, "a", "b")


@pytest.mark.parametrize(
    ("limit", "described", "following"),
    [
        (2, [("a", 0, [0, 1])], ("a", 2)),
        (3, [("a", 0, [0, 1, 2])], ("b", 0)),
        (4, [("a", 0, [0, 1, 2]), ("b", 0, [0])], ("b", 1)),
        (0, [("a", 0, [0])], ("a", 1)),
        (-1, [("a", 0, [0])], ("a", 1)),
    ],
)
def test_a_page_ends_at_the_limit_with_a_cursor(cluster, limit, described, following):
    assert page(cluster, "a", "b", limit=limit) == (described, following)


def test_the_brokers_limit_holds_too():
    cluster = Cluster(max_request_partition_size_limit="1")
    cluster.create("a", num_partitions=2)
    assert page(cluster, "a") == ([("a", 0, [0])], ("a", 1))


def test_the_next_page_begins_at_the_cursor(cluster):
    assert page(cluster, "a", "b", cursor=("a", 2)) == ([("a", 0, [2]), ("b", 0, [0, 1])], None)
    assert page(cluster, "a", "b", cursor=("a", 7)) == ([("a", 0, []), ("b", 0, [0, 1])], None)
    # A topic may have been deleted before its page is requested.
    assert page(cluster, cursor=("aa", 5)) == ([("b", 0, [0, 1])], None)


@pytest.mark.parametrize("cursor", [("a", -1), ("x", 0)])
def test_an_invalid_cursor_is_refused(cluster, cursor):
    with pytest.raises(KafkaError) as caught:
        page(cluster, "a", "b", cursor=cursor)
    assert caught.value.error is Error.INVALID_REQUEST


def test_unknown_and_illegal_names_are_reported(cluster):
    described, _ = page(cluster, "nope", "a b", "b", limit=2)
    assert described == [("a b", Error.INVALID_TOPIC_EXCEPTION, []), ("b", 0, [0, 1])]
    assert page(cluster, "nope") == ([("nope", Error.UNKNOWN_TOPIC_OR_PARTITION, [])], None)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_lists_brokers_and_operations_if_requested(cluster, version):
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = cluster.call(describe_cluster, request, version)
    [broker] = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, "host1", 9092)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert response.cluster_authorized_operations == 8096
    quiet = cluster.call(describe_cluster, DescribeClusterRequest(), version)
    assert quiet.cluster_authorized_operations == -(1 << 31)


def test_fenced_brokers_are_listed_if_requested(cluster):
    cluster.register(2, unfence=False)
    for include, ids in ((False, [1]), (True, [1, 2])):
        request = DescribeClusterRequest(include_fenced_brokers=include)
        response = cluster.call(describe_cluster, request, 2)
        assert [broker.broker_id for broker in response.brokers] == ids
    assert [broker.is_fenced for broker in response.brokers] == [False, True]


@pytest.mark.parametrize(
    ("type", "error"), [(2, Error.MISMATCHED_ENDPOINT_TYPE), (3, Error.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_brokers_do_not_list_controllers(cluster, type, error):
    with pytest.raises(KafkaError) as caught:
        cluster.call(describe_cluster, DescribeClusterRequest(endpoint_type=type), 1)
    assert caught.value.error is error


def elections(cluster, version, *partitions, type=0):
    topics = (
        None
        if partitions == (None,)
        else [
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(indexes))
            for topic, *indexes in partitions
        ]
    )
    request = ElectLeadersRequest(election_type=type, topic_partitions=topics)
    return cluster.call(elect_leaders, request, version).replica_election_results


@pytest.mark.parametrize("version", range(3))
def test_an_unnecessary_election_reports_so(cluster, version):
    [topic] = elections(cluster, version, ("a", 0, 9))
    assert [(r.partition_id, r.error_code, r.error_message) for r in topic.partition_result] == [
        (0, Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        (9, Error.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as a-9"),
    ]


def test_a_topic_that_is_named_twice_has_two_results(cluster):
    results = elections(cluster, 2, ("a", 0), ("b", 0), ("a", 0))
    assert [(each.topic, len(each.partition_result)) for each in results] == [
        ("a", 1),
        ("b", 1),
        ("a", 1),
    ]


def test_electing_everywhere_reports_only_needed_elections(cluster):
    results = elections(cluster, 2, None)
    assert [(topic.topic, topic.partition_result) for topic in results] == [("a", []), ("b", [])]


def test_an_unknown_kind_of_election_fails_each_partition(cluster):
    with pytest.raises(KafkaError) as caught:
        elections(cluster, 2, ("a", 0), type=7)
    request = ElectLeadersRequest(
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="a", partitions=[0])]
    )
    response = elect_leaders_failure(request, caught.value, Call(cluster))
    assert response.error_code == Error.INVALID_REQUEST
    [result] = response.replica_election_results[0].partition_result
    assert result.error_message == "Unknown election type 7"


def test_feature_updates_get_the_same_responses_as_from_kafka(cluster):
    key = UpdateFeaturesRequest.FeatureUpdateKey
    fine = UpdateFeaturesRequest(
        feature_updates=[key(feature="transaction.version", max_version_level=1, upgrade_type=2)]
    )
    [result] = cluster.call(update_features, fine, 1).results
    assert (result.feature, result.error_code, result.error_message) == (
        "transaction.version",
        0,
        "NONE",
    )
    bad = UpdateFeaturesRequest(feature_updates=[key(feature="foo", max_version_level=1)])
    with pytest.raises(KafkaError) as caught:
        cluster.call(update_features, bad, 2)
    assert (caught.value.error, caught.value.message) == (
        Error.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following "
        "feature had an error: Invalid update version 1 for feature foo. Local controller 1 does "
        "not support this feature.",
    )


class Quorum:
    """A quorum of which only the kraft.version is simulated."""

    def __init__(self):
        self.kraft_version = 0

    def keep_voters(self):
        self.kraft_version = 1


def test_voters_move_into_the_log_with_kraft_version_1_unless_it_is_a_dry_run(cluster):
    key = UpdateFeaturesRequest.FeatureUpdateKey
    kraft, foo = (key(feature=name, max_version_level=1) for name in ("kraft.version", "foo"))
    dry = UpdateFeaturesRequest(feature_updates=[kraft], validate_only=True)
    cluster.call(update_features, dry, 1)
    with pytest.raises(KafkaError):
        cluster.call(update_features, UpdateFeaturesRequest(feature_updates=[kraft, foo]), 1)
    assert cluster.role.quorum.kraft_version == 0
    cluster.call(update_features, UpdateFeaturesRequest(feature_updates=[kraft]), 1)
    assert cluster.role.quorum.kraft_version == 1


def test_version_0_allows_a_downgrade_by_a_flag(cluster):
    key = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        feature_updates=[key(feature="group.version", max_version_level=0, allow_downgrade=True)]
    )
    cluster.call(update_features, request, 0)
    assert "group.version" not in cluster.image.features


def test_a_broker_is_unregistered(cluster):
    cluster.register(7)
    response = cluster.call(unregister_broker, UnregisterBrokerRequest(broker_id=7), 0)
    assert (response.error_code, response.error_message) == (0, "")
    assert 7 not in cluster.image.brokers


@pytest.mark.parametrize("version", range(6))
def test_idempotent_producers_get_unique_ids(cluster, version):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    answers = [cluster.call(init_producer_id, request, version) for _ in range(3)]
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
    ]


def test_an_id_without_an_epoch_is_refused(cluster):
    request = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=-1)
    call = Call(cluster)
    call.version = 4
    with pytest.raises(KafkaError) as caught:
        asyncio.run(init_producer_id(request, call))
    assert caught.value.error is Error.INVALID_REQUEST
