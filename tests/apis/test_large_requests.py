"""Requests that name very many topics: no topic is compared with all others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.apis.share_member import share_fetch_request
from tests.apis.test_authorization import SecuredBroker
from tests.apis.test_fetch import fetch_request
from tests.counted import Comparisons, CountedBytes, CountedText
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from tests.metadata.cluster import Cluster
from tests.simulation.disk import SimulatedDisk
from wirekafka.apis.delete_topics import delete_topics
from wirekafka.apis.describe_topic_partitions import describe_topic_partitions
from wirekafka.apis.describe_user_scram_credentials import describe_user_scram_credentials
from wirekafka.apis.fetch import fetch
from wirekafka.apis.offset_for_leader_epoch import offset_for_leader_epoch
from wirekafka.apis.share_fetch import share_fetch
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.errors import Error
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wirekafka.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest

_TOPICS = 120
_MOST_COMPARISONS = 20 * _TOPICS


def answer(kafka: InProcessBroker, handler: Callable[..., Any], request: Any, version: int) -> Any:
    """The response to a request whose names and ids count."""
    call = Call(kafka.broker)
    call.version = version
    Comparisons.begin()
    found = handler(request, call)
    return now(found) if inspect.iscoroutine(found) else found


def test_a_fetch_of_many_refused_topics() -> None:
    kafka = SecuredBroker(SimulatedDisk())
    names = [CountedText(f"topic-{number}") for number in range(_TOPICS)]
    response = answer(kafka, fetch, fetch_request(*((name, 0, 0) for name in names)), 12)
    errors = {each.error_code for topic in response.responses for each in topic.partitions}
    assert errors == {Error.TOPIC_AUTHORIZATION_FAILED}
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()


def test_a_share_fetch_of_many_topics(tmp_path: Path) -> None:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    ids = [CountedBytes(number.to_bytes(16)) for number in range(1, _TOPICS + 1)]
    response = answer(
        kafka, share_fetch, share_fetch_request(dict.fromkeys([(i, 0) for i in ids], ())), 2
    )
    assert [topic.topic_id for topic in response.responses] == ids
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()


def test_the_epochs_of_many_topics_without_an_authorizer(tmp_path: Path) -> None:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition = kind.OffsetForLeaderPartition(partition=0)
    names = [CountedText(f"topic-{number}") for number in range(_TOPICS)]
    request = OffsetForLeaderEpochRequest(
        topics=[kind(topic=name, partitions=[partition]) for name in names]
    )
    response = answer(kafka, offset_for_leader_epoch, request, 4)
    errors = {each.error_code for topic in response.topics for each in topic.partitions}
    assert errors == {Error.UNKNOWN_TOPIC_OR_PARTITION}
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()


def test_the_credentials_of_many_users(tmp_path: Path) -> None:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    kind = DescribeUserScramCredentialsRequest.UserName
    names = [CountedText(f"user-{number}") for number in range(_TOPICS)]
    request = DescribeUserScramCredentialsRequest(users=[kind(name=name) for name in names])
    response = answer(kafka, describe_user_scram_credentials, request, 0)
    assert [each.user for each in response.results] == names
    assert {each.error_code for each in response.results} == {Error.RESOURCE_NOT_FOUND}
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()


def test_the_deletion_of_many_topics_by_name_and_by_id() -> None:
    cluster = Cluster()
    names = [CountedText(f"topic-{number}") for number in range(_TOPICS)]
    kind = DeleteTopicsRequest.DeleteTopicState
    by_id = [kind(name=None, topic_id=cluster.create(str(name)).id) for name in names]
    request = DeleteTopicsRequest(topics=[*(kind(name=name) for name in names), *by_id])
    call = ControllerCall(cluster.role, 6, Call(cluster))
    Comparisons.begin()
    response = cluster.settled(delete_topics(request, call))
    assert {each.error_code for each in response.responses} == {Error.INVALID_REQUEST}
    assert Comparisons.made < _MOST_COMPARISONS


def test_the_partitions_of_many_topics(tmp_path: Path) -> None:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    kind = DescribeTopicPartitionsRequest.TopicRequest
    names = [CountedText(f"topic-{number:03}") for number in range(_TOPICS)]
    request = DescribeTopicPartitionsRequest(topics=[kind(name=name) for name in names])
    response = answer(kafka, describe_topic_partitions, request, 0)
    assert [topic.name for topic in response.topics] == names
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()
