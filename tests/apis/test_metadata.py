"""Metadata, in all its versions."""

import pytest

from tests.metadata.cluster import CLUSTER_ID, Cluster
from wirekafka.apis.metadata import metadata
from wirekafka.errors import Error
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse

VERSIONS = range(14)
NOT_ASKED = -(1 << 31)


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.create("a", num_partitions=2)
    cluster.create("b")
    return cluster


def ask(cluster, version, *names, ids=(), listener="PLAINTEXT", **fields) -> MetadataResponse:
    topics = [MetadataRequest.Topic(name=name) for name in names]
    topics += [MetadataRequest.Topic(name=None, topic_id=id) for id in ids]
    request = MetadataRequest(topics=fields.pop("topics", topics), **fields)
    return cluster.call(metadata, request, version, listener)


def names(response):
    return [topic.name for topic in response.topics]


def test_version_0_without_topics_describes_all(cluster):
    assert names(ask(cluster, 0)) == ["a", "b"]


@pytest.mark.parametrize("version", range(1, 14))
def test_from_version_1_null_is_all_and_empty_is_none(cluster, version):
    assert names(ask(cluster, version, topics=None)) == ["a", "b"]
    assert names(ask(cluster, version)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_describes_brokers_and_leaders(cluster, version):
    response = ask(cluster, version, "a")
    [broker] = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "host1", 9092)
    [topic] = response.topics
    assert topic.error_code == 0 and topic.name == "a"
    assert [
        (p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions
    ] == [(0, 1, [1], [1]), (1, 1, [1], [1])]
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert topic.topic_id == (cluster.image.topics["a"].id if version >= 10 else bytes(16))


def test_the_advertised_address_is_that_of_the_listener_the_client_came_in_on(cluster):
    [broker] = ask(cluster, 12, listener="OTHER").brokers
    assert (broker.host, broker.port) == ("other1", 9094)


@pytest.mark.parametrize(
    ("version", "error"), [(5, Error.LEADER_NOT_AVAILABLE), (6, Error.LISTENER_NOT_FOUND)]
)
def test_a_leader_that_is_not_on_the_listener_is_an_error(cluster, version, error):
    response = ask(cluster, version, "b", listener="NOWHERE")
    assert response.brokers == []
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (error, -1)
    assert partition.offline_replicas == [1]


def test_a_partition_without_a_leader_has_an_error(cluster):
    cluster.beat(1, wants_shut_down=True)
    [partition] = ask(cluster, 12, "b").topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (Error.LEADER_NOT_AVAILABLE, -1)
    assert (partition.isr_nodes, partition.offline_replicas) == ([], [1])


@pytest.mark.parametrize("version", VERSIONS)
def test_version_0_leaves_out_replicas_of_unreachable_brokers(version):
    cluster = Cluster(1, 2, 3)
    cluster.create("a", replication_factor=3)
    cluster.beat(3, wants_fence=True)
    [partition] = ask(cluster, version, "a").topics[0].partitions
    order = cluster.image.topics["a"].partitions[0].replicas
    if version == 0:
        assert partition.error_code == Error.REPLICA_NOT_AVAILABLE
        assert partition.replica_nodes == [id for id in order if id != 3]
    else:
        assert (partition.error_code, partition.replica_nodes) == (Error.NONE, order)
    assert sorted(partition.isr_nodes) == [1, 2]
    assert partition.leader_id in (1, 2)


def test_a_missing_topic_is_created_and_reported_as_missing_the_first_time(cluster):
    [topic] = ask(cluster, 12, "new", allow_auto_topic_creation=True).topics
    assert (topic.error_code, topic.partitions) == (Error.UNKNOWN_TOPIC_OR_PARTITION, [])
    [topic] = ask(cluster, 12, "new").topics
    assert topic.error_code == 0 and len(topic.partitions) == 1


def test_from_version_4_a_client_may_opt_out_of_creation(cluster):
    ask(cluster, 12, "new", allow_auto_topic_creation=False)
    assert "new" not in cluster.image.topics
    ask(cluster, 3, "new")
    assert "new" in cluster.image.topics


def test_no_topic_is_created_if_auto_creation_is_disabled():
    cluster = Cluster(auto_create_topics_enable="false")
    ask(cluster, 12, "new", allow_auto_topic_creation=True)
    assert not cluster.image.topics


def test_created_topics_have_the_brokers_defaults():
    cluster = Cluster(num_partitions="5")
    ask(cluster, 12, "new")
    assert len(cluster.image.topics["new"].partitions) == 5


def test_internal_topics_are_created_as_their_coordinators_need_them(cluster):
    ask(cluster, 12, "__consumer_offsets", "__transaction_state")
    offsets, transactions = (
        cluster.image.topics[name] for name in ("__consumer_offsets", "__transaction_state")
    )
    assert (len(offsets.partitions), len(transactions.partitions)) == (50, 50)
    assert cluster.image.config(2, offsets.name) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert cluster.image.config(2, transactions.name) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    assert [t.is_internal for t in ask(cluster, 12, "__consumer_offsets", "a").topics] == [
        True,
        False,
    ]


@pytest.mark.parametrize("name", ["", "a b", "x" * 250])
def test_an_illegal_topic_name_is_invalid(cluster, name):
    [topic] = ask(cluster, 12, name).topics
    assert topic.error_code == Error.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a.b", "__cluster_metadata"])
def test_a_topic_that_cannot_be_created_stays_unknown(cluster, name):
    cluster.create("a_b")
    [topic] = ask(cluster, 12, name).topics
    assert topic.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
    assert name not in cluster.image.topics


def test_a_topic_requested_twice_is_described_once(cluster):
    assert names(ask(cluster, 12, "a", "a")) == ["a"]


def test_from_version_12_topics_are_requested_by_id(cluster):
    known = cluster.image.topics["a"].id
    found, missing = ask(cluster, 12, ids=[known, b"?" * 16]).topics
    assert (found.name, found.error_code) == ("a", 0)
    assert (missing.name, missing.error_code) == (None, Error.UNKNOWN_TOPIC_ID)
    assert missing.topic_id == b"?" * 16


@pytest.mark.parametrize(("version", "cluster_operations"), [(8, 8096), (10, 8096)])
def test_authorized_operations_are_reported_if_requested(cluster, version, cluster_operations):
    quiet = ask(cluster, version, "a")
    assert quiet.cluster_authorized_operations == NOT_ASKED
    assert quiet.topics[0].topic_authorized_operations == NOT_ASKED
    asked = ask(
        cluster,
        version,
        "a",
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert asked.cluster_authorized_operations == cluster_operations
    assert asked.topics[0].topic_authorized_operations == 3576


def test_fenced_broker_names_another_one_as_the_controller(cluster):
    assert ask(cluster, 12).controller_id == 1
    cluster.register(2)
    cluster.beat(1, wants_fence=True)
    response = ask(cluster, 12)
    assert [broker.node_id for broker in response.brokers] == [2]
    assert response.controller_id == 2
    cluster.beat(2, wants_fence=True)
    assert ask(cluster, 12).controller_id == -1
