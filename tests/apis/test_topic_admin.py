"""CreateTopics, DeleteTopics and CreatePartitions as clients see them."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.create_partitions import create_partitions
from wirekafka.apis.create_topics import create_topics, create_topics_failure
from wirekafka.apis.delete_topics import delete_topics, delete_topics_failure
from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest


@pytest.fixture
def cluster():
    return Cluster()


def create(cluster, *topics, version=7, **fields):
    wanted = [
        CreateTopicsRequest.CreatableTopic(
            **{"num_partitions": 1, "replication_factor": 1, **topic}
        )
        for topic in topics
    ]
    request = CreateTopicsRequest(topics=wanted, **fields)
    return cluster.call(create_topics, request, version).topics


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_of_create_topics_creates(cluster, version):
    [topic] = create(cluster, {"name": "t"}, version=version)
    assert (topic.name, topic.error_code, topic.error_message) == ("t", 0, None)
    assert topic.topic_id == (cluster.image.topics["t"].id if version == 7 else bytes(16))


def test_from_version_5_all_configs_come_with_their_sources(cluster):
    config = CreateTopicsRequest.CreatableTopic.CreatableTopicConfig
    [topic] = create(cluster, {"name": "t", "configs": [config(name="retention.ms", value="7")]})
    assert (topic.num_partitions, topic.replication_factor, len(topic.configs)) == (1, 1, 37)
    sources = {entry.name: (entry.value, entry.config_source) for entry in topic.configs}
    assert sources["retention.ms"] == ("7", 1)
    assert sources["cleanup.policy"] == ("delete", 5)


def test_configs_of_a_new_topic_are_reported_as_they_were_written(cluster):
    written = {"cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "0.250"}
    config = CreateTopicsRequest.CreatableTopic.CreatableTopicConfig
    configs = [config(name=name, value=value) for name, value in written.items()]
    [topic] = create(cluster, {"name": "t", "configs": configs})
    values = {entry.name: entry.value for entry in topic.configs}
    assert {name: values[name] for name in written} == written


def test_an_unknown_config_is_reported_before_a_bad_value(cluster):
    config = CreateTopicsRequest.CreatableTopic.CreatableTopicConfig
    configs = [config(name="segment.bytes", value="1"), config(name="no.such.key", value="1")]
    [topic] = create(cluster, {"name": "t", "configs": configs})
    assert topic.error_message == "Unknown topic config name: no.such.key"


def test_minus_one_uses_the_default_of_the_broker(cluster):
    [topic] = create(cluster, {"name": "t", "num_partitions": -1, "replication_factor": -1})
    assert (topic.num_partitions, topic.replication_factor) == (1, 1)


def test_a_topic_named_twice_in_a_request_is_not_created(cluster):
    topics = create(cluster, {"name": "d"}, {"name": "e"}, {"name": "d"})
    assert [(topic.name, topic.error_code, topic.error_message) for topic in topics] == [
        ("e", 0, None),
        ("d", Error.INVALID_REQUEST, "Duplicate topic name."),
    ]
    assert list(cluster.image.topics) == ["e"]


def test_the_metadata_topic_cannot_be_created(cluster):
    [topic] = create(cluster, {"name": "__cluster_metadata"})
    assert (topic.error_code, topic.error_message) == (
        Error.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


def test_validate_only_returns_the_same_response_and_creates_nothing(cluster):
    [topic] = create(cluster, {"name": "t"}, validate_only=True)
    assert topic.error_code == 0 and topic.topic_id != bytes(16)
    assert not cluster.image.topics


def test_a_failure_of_the_whole_request_is_reported_for_each_topic(cluster):
    request = CreateTopicsRequest(
        topics=[CreateTopicsRequest.CreatableTopic(name=name) for name in "ab"]
    )
    call = Call(cluster)
    call.version = 7
    error = KafkaError(Error.POLICY_VIOLATION, "why")
    response = create_topics_failure(request, error, call)
    assert [(t.name, t.error_code, t.error_message) for t in response.topics] == [
        ("a", Error.POLICY_VIOLATION, "why"),
        ("b", Error.POLICY_VIOLATION, "why"),
    ]


def delete(cluster, *references, version=6):
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[name for name, _ in references])
    else:
        request = DeleteTopicsRequest(
            topics=[
                DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=id or bytes(16))
                for name, id in references
            ]
        )
    return [
        (each.name, each.error_code, each.error_message)
        for each in cluster.call(delete_topics, request, version).responses
    ]


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_of_delete_topics_deletes(cluster, version):
    cluster.create("t")
    message = "This server does not host this topic-partition." if version >= 5 else None
    assert delete(cluster, ("t", None), ("no", None), version=version) == [
        ("t", 0, None),
        ("no", Error.UNKNOWN_TOPIC_OR_PARTITION, message),
    ]


def test_topics_are_deleted_by_id(cluster):
    topic_id = cluster.create("t").id
    assert delete(cluster, (None, topic_id)) == [("t", 0, None)]
    assert delete(cluster, (None, topic_id)) == [
        (None, Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    ]


@pytest.mark.parametrize(
    ("references", "answers"),
    [
        ([("t", "id")], [("t", "You may not specify both topic name and topic id.")]),
        ([(None, None)], [(None, "Neither topic name nor id were specified.")]),
        ([("t", None), ("t", None)], [("t", "Duplicate topic name.")]),
        ([(None, "id"), (None, "id")], [(None, "Duplicate topic id.")]),
        (
            [("t", None), (None, "id")],
            [("t", "The provided topic name maps to an ID that was already supplied.")],
        ),
    ],
)
def test_contradicting_references_delete_nothing(cluster, references, answers):
    topic_id = cluster.create("t").id
    asked = [(name, topic_id if id else None) for name, id in references]
    assert delete(cluster, *asked) == [
        (name, Error.INVALID_REQUEST, message) for name, message in answers
    ]
    assert "t" in cluster.image.topics


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (1, Error.INVALID_REQUEST),
        (3, Error.TOPIC_DELETION_DISABLED),
        (6, Error.TOPIC_DELETION_DISABLED),
    ],
)
def test_deletion_can_be_disabled(version, error):
    cluster = Cluster(delete_topic_enable="false")
    cluster.create("t")
    with pytest.raises(KafkaError) as caught:
        delete(cluster, ("t", None), version=version)
    assert caught.value.error is error
    request = DeleteTopicsRequest(topic_names=["t"])
    [result] = delete_topics_failure(request, caught.value, Call(cluster)).responses
    assert (result.name, result.error_code) == ("t", error)


@pytest.mark.parametrize("version", range(4))
def test_create_partitions_returns_a_result_for_every_topic(cluster, version):
    cluster.create("t")
    cluster.create("twice")
    topic = CreatePartitionsRequest.Topic
    request = CreatePartitionsRequest(
        topics=[
            topic(name="t", count=3, assignments=None),
            topic(name="no", count=3, assignments=None),
            topic(name="twice", count=2, assignments=None),
            topic(name="twice", count=3, assignments=None),
        ]
    )
    results = cluster.call(create_partitions, request, version).results
    assert {each.name: (each.error_code, each.error_message) for each in results} == {
        "t": (0, None),
        "no": (Error.UNKNOWN_TOPIC_OR_PARTITION, None),
        "twice": (Error.INVALID_REQUEST, "Duplicate topic name."),
    }
    assert len(cluster.image.topics["t"].partitions) == 3
