"""Produce requests that name many partitions: found without decoding, served in many turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.raw_client import frame, response_in
from wirekafka.apis.produce import produce
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.produce_size import MOST_BATCHES, has_many_batches
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.security.acl import TOPIC, WRITE, Permission
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.replies import Replies

Topic = ProduceRequest.TopicProduceData
Data = Topic.PartitionProduceData
VERSIONS = range(ProduceRequest.versions.first, ProduceRequest.versions.last + 1)
LARGE = batch(bytes(20_000))
GOOD = 60
"""The batches of `many` that are accepted, each for a partition of its own."""


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path, manual_clock)
    broker.create("a", partitions=GOOD + 1)
    broker.create("b", partitions=GOOD + 1)
    yield broker
    broker.stop()


def request(*topics: Topic, transactional_id: str | None = None, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=100, topic_data=list(topics)
    )


def topic(name: str, *partitions: Data) -> Topic:
    return Topic(name=name, topic_id=name.encode()[:16].ljust(16), partition_data=list(partitions))


def body(made: ProduceRequest, version: int) -> bytes:
    return made.encode(version)


def is_many(made: ProduceRequest, version: int) -> bool:
    data = memoryview(b"before" + body(made, version))
    return has_many_batches(data, 6, len(data), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "t", "t" * 200])
def test_many_partitions_are_counted_in_every_version(
    version: int, transactional_id: str | None
) -> None:
    small = [Data(index=index, records=None) for index in range(5_000)]
    options = {"transactional_id": transactional_id}
    assert is_many(request(topic("a", *small), **options), version)
    first = topic("a" * 200, Data(index=0, records=LARGE))
    assert is_many(request(first, topic("a", *small), **options), version)
    assert is_many(request(*(topic(f"topic-{n}") for n in range(5_000)), **options), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_few_large_batches_does_not_have_many(version: int) -> None:
    large = [Data(index=index, records=LARGE) for index in range(100)]
    assert not is_many(request(topic("a", *large)), version)
    assert not is_many(request(*(topic(f"topic-{n}", *large[:1]) for n in range(100))), version)
    assert is_many(request(topic("a", *large), topic("b", *large), topic("c", *large)), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_malformed_request_is_left_to_the_decoder(version: int) -> None:
    data = body(request(topic("a", *(Data(index=0, records=LARGE) for _ in range(3)))), version)
    for cut in (3, 10, 40):
        assert has_many_batches(data[:cut], 0, 1 << 20, version)


@pytest.mark.parametrize("version", [3, 9, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_responses_to_many_partitions_are_those_of_a_request_that_is_served_at_once(
    kafka: InProcessBroker, version: int, acks: int
) -> None:
    pipeline = Pipeline()
    divided = served(pipeline, many(kafka, "a", acks), version, Call(kafka.broker))
    call = Call(kafka.broker)
    call.version = version
    whole = produce(many(kafka, "b", acks), call)
    whole = ProduceResponse.decode(whole.encode(version), version)
    assert [without_name(each) for each in divided.responses] == [
        without_name(each) for each in whole.responses
    ]
    assert sum(not each.error_code for each in partitions(divided)) == GOOD
    assert kafka.partition("a").log.end_offset == kafka.partition("b").log.end_offset == 1


def test_of_many_batches_the_last_for_a_partition_counts(kafka: InProcessBroker) -> None:
    made = many(kafka, "a", 1)
    made.topic_data[0].partition_data.append(Data(index=0, records=batch(b"v", b"w")))
    again = [Data(index=GOOD, records=batch(b"v"))]
    id = kafka.broker.image.topics["a"].id
    made.topic_data += [topic("empty"), Topic(name="a", topic_id=id, partition_data=again)]
    answer = served(Pipeline(), made, 9, Call(kafka.broker))
    assert [each.name for each in answer.responses] == ["a", "unknown"]
    assert len(answer.responses[0].partition_responses) == GOOD + 700 + 1
    assert kafka.partition("a").log.end_offset == 2
    assert kafka.partition("a", GOOD).log.end_offset == 1


def test_many_partitions_with_acks_0_get_no_response(kafka: InProcessBroker) -> None:
    call = Call(kafka.broker)
    assert served(Pipeline(), many(kafka, "a", 0), 9, call) is None
    assert call.wants_close, "some of its batches were refused"


@pytest.fixture
def secured(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    """A broker where everybody may write to topic `a` only."""
    broker = InProcessBroker(
        tmp_path, manual_clock, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin"
    )
    broker.create("a", partitions=GOOD + 1)
    broker.create("secret")
    acl = CreateAclsRequest.AclCreation(
        resource_type=TOPIC,
        resource_name="a",
        principal="User:*",
        host="*",
        operation=WRITE,
        permission_type=Permission.ALLOW,
    )
    allowed = CreateAclsRequest(creations=[acl])
    assert broker.begin(allowed, 3, principal="User:admin").response.results[0].error_code == 0
    yield broker
    broker.stop()


@pytest.mark.parametrize("version", [12, 13])
def test_many_partitions_are_authorized_by_their_topic(
    secured: InProcessBroker, version: int
) -> None:
    sent = many(secured, "a", 1)
    secret = secured.broker.image.topics["secret"].id
    hidden = [Data(index=index, records=batch(b"v")) for index in range(300)]
    sent.topic_data.insert(1, Topic(name="secret", topic_id=secret, partition_data=hidden))
    response = served(Pipeline(), sent, version, Call(secured.broker))
    errors = [
        {each.error_code for each in topic.partition_responses} for topic in response.responses
    ]
    refused = {Error.TOPIC_AUTHORIZATION_FAILED}
    unknown = refused if version < 13 else {Error.UNKNOWN_TOPIC_ID}
    assert errors[1:3] == [refused, unknown]
    assert errors[0] == {Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_RECORD}
    assert len(response.responses[1].partition_responses) == 300
    assert secured.partition("a").log.end_offset == 1
    assert secured.partition("secret").log.end_offset == 0


@pytest.mark.parametrize("acks", [1, 0])
def test_nothing_is_appended_where_one_of_many_batches_has_a_forbidden_transaction(
    secured: InProcessBroker, acks: int
) -> None:
    sent = many(secured, "a", acks)
    sent.transactional_id = "x"
    records = batch(b"v", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    sent.topic_data[-1].partition_data.append(Data(index=0, records=records))
    call = Call(secured.broker)
    response = served(Pipeline(), sent, 12, call)
    assert call.wants_close == (not acks)
    codes = {each.error_code for each in partitions(response)} if acks else set()
    assert codes == ({Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED} if acks else set())
    assert secured.partition("a").log.end_offset == 0


def many(kafka: InProcessBroker, name: str, acks: int) -> ProduceRequest:
    """Good batches, batches of partitions that are not there, no batch, and an unknown topic."""
    known = kafka.broker.image.topics[name].id
    records = batch(b"v")
    good = [Data(index=index, records=records) for index in range(GOOD)]
    bad = [Data(index=1000 + index, records=records) for index in range(700)]
    unknown = [Data(index=index, records=None) for index in range(MOST_BATCHES)]
    empty = Data(index=GOOD, records=b"")
    return request(
        Topic(name=name, topic_id=known, partition_data=[*good, *bad, empty]),
        Topic(name="unknown", topic_id=b"u" * 16, partition_data=unknown),
        acks=acks,
    )


def served(pipeline: Pipeline, made: ProduceRequest, version: int, call: Call) -> Any:
    replies = Replies()
    data = memoryview(frame(made, version, 7))
    parked = pipeline.serve(data, 0, len(data), call, replies)
    assert parked is not None and not parked.resume(call, replies), "it takes several turns"
    while not parked.resume(call, replies):
        pass
    sent = b"".join([*replies.buffers, replies.tail])
    return response_in(sent[4:], ProduceRequest, version) if sent else None


def partitions(response: Any) -> list[Any]:
    return [each for topic in response.responses for each in topic.partition_responses]


def without_name(topic: Any) -> list[Any]:
    return [
        (each.index, each.error_code, each.base_offset, each.log_start_offset, each.current_leader)
        for each in topic.partition_responses
    ]
