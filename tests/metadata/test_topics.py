"""Creating, deleting and growing topics, with Kafka's messages."""

from collections import Counter

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicReference,
)
from wirekafka.protocol.records import metadata as r


@pytest.fixture
def cluster():
    return Cluster()


def refusal(cluster, **topic):
    with pytest.raises(KafkaError) as caught:
        cluster.create(**topic)
    return caught.value.error, caught.value.message


def test_a_topic_is_created_with_the_records_kafka_writes(cluster):
    before = cluster.log.end_offset
    created = cluster.create(
        "t",
        num_partitions=2,
        replication_factor=1,
        configs={"retention.ms": "100", "min.insync.replicas": "1"},
    )
    records = cluster.records(before)
    assert [type(record) for record in records] == [
        r.TopicRecord,
        r.ConfigRecord,
        r.ConfigRecord,
        r.ClearElrRecord,
        r.PartitionRecord,
        r.PartitionRecord,
    ]
    partition = records[-1]
    assert (partition.partition_id, partition.replicas, partition.isr) == (1, [1], [1])
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 0)
    assert partition.directories == [b"\1" * 16]
    assert created.id == cluster.image.topics["t"].id
    assert (created.num_partitions, created.replication_factor) == (2, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (
            "é",
            "Topic name is invalid: 'é' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (
            "x" * 250,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max "
            "allowed length 249",
        ),
    ],
)
def test_illegal_names_are_refused(cluster, name, message):
    assert refusal(cluster, name=name) == (Error.INVALID_TOPIC_EXCEPTION, message)


def test_a_name_of_249_characters_is_legal(cluster):
    cluster.create("x" * 249)


def test_a_dot_collides_with_an_underscore(cluster):
    cluster.create("a.b")
    assert refusal(cluster, name="a_b") == (
        Error.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b' collides with existing topic: a.b",
    )


def test_an_existing_topic_is_not_created_again(cluster):
    cluster.create("t")
    assert refusal(cluster, name="t", replication_factor=3) == (
        Error.TOPIC_ALREADY_EXISTS,
        "Topic 't' already exists.",
    )


def test_minus_one_takes_the_brokers_defaults():
    cluster = Cluster(1, 2, num_partitions="3", default_replication_factor="2")
    created = cluster.create("t", num_partitions=-1, replication_factor=-1)
    assert (created.num_partitions, created.replication_factor) == (3, 2)


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (
            {"replication_factor": 3},
            Error.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication "
            "factor of 3 cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        ),
        (
            {"replication_factor": 0},
            Error.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            {"num_partitions": 0},
            Error.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            {"num_partitions": -2},
            Error.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        ({"configs": {"foo.bar": "1"}}, Error.INVALID_CONFIG, "Unknown topic config name: foo.bar"),
        (
            {"configs": {"retention.ms": "abc"}},
            Error.INVALID_CONFIG,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"configs": {"cleanup.policy": None}},
            Error.INVALID_CONFIG,
            "Null value not supported for topic configs: cleanup.policy",
        ),
        (
            {"configs": {"min.compaction.lag.ms": "300", "max.compaction.lag.ms": "100"}},
            Error.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (300) > "
            "max.compaction.lag.ms (100)",
        ),
        (
            {"assignments": [(0, [1])], "num_partitions": 1},
            Error.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            {"assignments": [(0, [1])], "replication_factor": 1},
            Error.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor "
            "was not set to -1.",
        ),
        (
            {"assignments": [(0, [1]), (2, [1])]},
            Error.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            {"assignments": [(0, [1]), (0, [1])]},
            Error.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            {"assignments": [(0, [])]},
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            {"assignments": [(0, [7])]},
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            {"assignments": [(0, [1, 1])]},
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_bad_topics_are_refused_in_kafkas_words(cluster, topic, error, message):
    before = cluster.log.end_offset
    assert refusal(cluster, name="t", **topic) == (error, message)
    assert cluster.log.end_offset == before


def test_manual_assignments_are_kept():
    cluster = Cluster(1, 2, 3)
    cluster.create("t", assignments=[(0, [3, 1]), (1, [2, 3])])
    partitions = cluster.image.topics["t"].partitions
    assert [partitions[index].replicas for index in (0, 1)] == [[3, 1], [2, 3]]
    assert partitions[0].leader == 3


def test_one_bad_topic_does_not_affect_the_others(cluster):
    reply = cluster.submit(CreateTopics([NewTopic(name="a b"), NewTopic(name="good")]))
    assert reply["a b"].error is Error.INVALID_TOPIC_EXCEPTION
    assert reply["good"].num_partitions == 1
    assert list(cluster.image.topics) == ["good"]


def test_validating_creates_nothing(cluster):
    reply = cluster.submit(CreateTopics([NewTopic(name="t")], validate_only=True))
    assert reply["t"].num_partitions == 1
    assert not cluster.image.topics


def test_a_request_for_too_many_partitions_is_refused_completely(cluster):
    with pytest.raises(KafkaError) as caught:
        cluster.submit(CreateTopics([NewTopic(name="t", num_partitions=10_001)]))
    assert (caught.value.error, caught.value.message) == (
        Error.POLICY_VIOLATION,
        "Excessively large number of partitions per request.",
    )


def test_replicas_are_spread_over_brokers_and_racks():
    cluster = Cluster()
    for id, rack in ((2, "b"), (3, "a"), (4, "b")):
        cluster.register(id, rack=rack)
    cluster.create("t", num_partitions=8, replication_factor=2)
    partitions = cluster.image.topics["t"].partitions.values()
    racks = {1: "none", 2: "b", 3: "a", 4: "b"}
    assert all(
        len({racks[broker] for broker in partition.replicas}) == 2 for partition in partitions
    )
    led = Counter(partition.leader for partition in partitions)
    assert set(led) == {1, 2, 3, 4}
    assert min(led[1], led[3], led[2] + led[4]) >= 2, "racks take turns"


def test_topics_are_deleted_by_name_and_by_id(cluster):
    cluster.create("a", configs={"retention.ms": "1"})
    b = cluster.create("b")
    reply = cluster.submit(DeleteTopics([TopicReference("a"), TopicReference(None, b.id)]))
    assert [(name, error) for name, _, error in reply] == [("a", None), ("b", None)]
    assert not cluster.image.topics and not cluster.image.topics_by_id
    assert not cluster.image.config(2, "a")


def test_deleting_unknown_names_and_ids_returns_different_errors(cluster):
    reply = cluster.submit(DeleteTopics([TopicReference("a"), TopicReference(None, b"x" * 16)]))
    assert [error.error for *_, error in reply] == [
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
    ]


def test_a_recreated_topic_has_a_new_id(cluster):
    first = cluster.create("t").id
    cluster.submit(DeleteTopics([TopicReference("t")]))
    assert cluster.create("t").id != first


@pytest.mark.parametrize(
    ("growth", "error", "message"),
    [
        (("nope", 3, None), Error.UNKNOWN_TOPIC_OR_PARTITION, None),
        (("t", 2, None), Error.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            ("t", 1, None),
            Error.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            ("t", -1, None),
            Error.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); -1 would not be an increase.",
        ),
        (
            ("t", 4, [[1]]),
            Error.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            ("t", 3, [[]]),
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            ("t", 3, [[3]]),
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 3, but no such broker is registered.",
        ),
    ],
)
def test_bad_growth_is_refused_in_kafkas_words(cluster, growth, error, message):
    cluster.create("t", num_partitions=2)
    reply = cluster.submit(CreatePartitions([Growth(*growth)]))[growth[0]]
    assert (reply.error, reply.message) == (error, message)


def test_create_partitions_answers_every_topic(cluster):
    cluster.create("t")
    reply = cluster.submit(CreatePartitions([Growth("t", 3), Growth("nope", 3)]))
    assert reply["t"] is None and reply["nope"].error is Error.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(cluster.image.topics["t"].partitions) == [0, 1, 2]
