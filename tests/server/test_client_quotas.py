"""Client quotas of a whole node: what is counted, what is reported, and how clients are muted."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import Exchange, InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.raw_client import frame
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest

TOPIC = "t"
CLIENT = "test"
CACHED, DECODED = 9, 8
"""Versions of Produce that the cache serves, and that it does not."""


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create(TOPIC)
    yield broker
    broker.stop()


def quota_request(
    quota: str, value: float | None, **entity: str | None
) -> AlterClientQuotasRequest:
    """Sets a quota, or removes it with None, of the client or of another entity."""
    entry = AlterClientQuotasRequest.EntryData
    named = {
        name.replace("_", "-"): each for name, each in (entity or {"client_id": CLIENT}).items()
    }
    parts = [entry.EntityData(entity_type=kind, entity_name=name) for kind, name in named.items()]
    ops = [entry.OpData(key=quota, value=value or 0.0, remove=value is None)]
    return AlterClientQuotasRequest(entries=[entry(entity=parts, ops=ops)])


def set_quota(
    kafka: InProcessBroker, quota: str, value: float | None, **entity: str | None
) -> None:
    [result] = ask(kafka, quota_request(quota, value, **entity), 1, "admin").entries
    assert result.error_code == 0


def ask(kafka: InProcessBroker, request: Request, version: int, client_id: str = CLIENT) -> Any:
    """The response; the connection may be muted afterwards."""
    return kafka.begin(request, version, client_id).response


def produce(value_bytes: int = 100, acks: int = 1) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    records = batch(b"v" * value_bytes)
    partition = data.PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[data(name=TOPIC, partition_data=[partition])]
    )


def fetch(
    offset: int = 0, session_id: int = 0, session_epoch: int = -1, replica_id: int = -1
) -> FetchRequest:
    topic = FetchRequest.Topic
    wanted = topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[topic(topic=TOPIC, partitions=[wanted])],
    )


def is_muted(exchange: Exchange) -> bool:
    return exchange._connection.protocol._muted is not None


def throttle_ms(kafka: InProcessBroker, request: Request, version: int) -> int:
    """The reported throttle time, for which the connection must be muted."""
    exchange = kafka.begin(request, version, CLIENT)
    reported: int = exchange.response.throttle_time_ms
    assert is_muted(exchange) == (reported > 0)
    if reported:
        kafka.clock.advance(reported - 1)
        assert is_muted(exchange)
        kafka.clock.advance(1)
        assert not is_muted(exchange)
    return reported


@pytest.mark.parametrize("version", [CACHED, DECODED])
def test_every_produce_request_counts_whichever_way_it_is_served(
    kafka: InProcessBroker, version: int
) -> None:
    size = len(frame(produce(), version, 1, CLIENT))
    set_quota(kafka, "producer_byte_rate", size)  # One per second: ten at once are allowed.
    assert [ask(kafka, produce(), version).throttle_time_ms for _ in range(10)] == [0] * 10
    assert throttle_ms(kafka, produce(), version) == 1000
    assert kafka.partition(TOPIC).end_offset == 11
    assert ask(kafka, produce(), version, "other").throttle_time_ms == 0


def test_a_quota_set_later_applies_to_requests_that_are_cached(kafka: InProcessBroker) -> None:
    for _ in range(3):
        assert ask(kafka, produce(), CACHED).throttle_time_ms == 0
    set_quota(kafka, "producer_byte_rate", 10)
    assert [ask(kafka, produce(), CACHED).throttle_time_ms > 0 for _ in range(3)] == [True] * 3
    set_quota(kafka, "producer_byte_rate", None)
    assert [ask(kafka, produce(), CACHED).throttle_time_ms for _ in range(3)] == [0] * 3
    assert kafka.broker.quotas is None


@pytest.mark.parametrize("version", [CACHED, DECODED])
def test_a_producer_without_acknowledgements_is_muted_too(
    kafka: InProcessBroker, version: int
) -> None:
    set_quota(kafka, "producer_byte_rate", 10)
    for _ in range(3):
        exchange = kafka.begin(produce(acks=0), version, CLIENT)
        assert exchange.response is None and is_muted(exchange)
    assert kafka.partition(TOPIC).end_offset == 3


def test_a_fetch_over_the_quota_is_empty_and_works_after_its_throttle_time(
    kafka: InProcessBroker,
) -> None:
    ask(kafka, produce(500), DECODED)
    set_quota(kafka, "consumer_byte_rate", 100)
    first = ask(kafka, fetch(), 12)
    assert first.throttle_time_ms == 0 and records(first)
    size = len(first.encode(12)) + 4
    exchange = kafka.begin(fetch(), 12, CLIENT)
    assert exchange.response.throttle_time_ms == (2 * size - 1000) * 10
    assert exchange.response.responses == [] and is_muted(exchange)
    kafka.clock.advance(11_000)
    assert records(ask(kafka, fetch(), 12))


def test_a_fetch_session_survives_a_throttled_response(kafka: InProcessBroker) -> None:
    opened = ask(kafka, fetch(session_epoch=0), 12)
    assert opened.session_id
    ask(kafka, produce(500), DECODED)
    set_quota(kafka, "consumer_byte_rate", 50)
    wanted = fetch(session_id=opened.session_id, session_epoch=1)
    throttled = ask(kafka, wanted, 12)
    assert throttled.throttle_time_ms and throttled.session_id == opened.session_id
    assert throttled.error_code == 0 and throttled.responses == []
    set_quota(kafka, "consumer_byte_rate", None)
    wanted.session_epoch, wanted.topics = 2, []
    assert records(ask(kafka, wanted, 12))


def test_a_full_fetch_that_is_throttled_opens_no_session(kafka: InProcessBroker) -> None:
    ask(kafka, produce(500), DECODED)
    set_quota(kafka, "consumer_byte_rate", 10)
    throttled = ask(kafka, fetch(session_epoch=0), 12)
    assert throttled.throttle_time_ms and throttled.session_id == 0
    assert len(kafka.broker.sessions) == 0


def test_a_fetch_returns_no_more_than_its_windows_allow(kafka: InProcessBroker) -> None:
    for _ in range(5):
        ask(kafka, produce(500), DECODED)
    set_quota(kafka, "consumer_byte_rate", 130)
    # What surrounds the records exceeds the quota, until some of a window has passed.
    assert 0 < throttle_ms(kafka, fetch(), 12) < 1000
    assert len(records(ask(kafka, fetch(), 12))) == 1300


def test_followers_are_exempt(kafka: InProcessBroker) -> None:
    for quota in ("consumer_byte_rate", "request_percentage"):
        set_quota(kafka, quota, 0.001 if quota == "request_percentage" else 1)
    for _ in range(3):
        assert ask(kafka, fetch(replica_id=1), 12).throttle_time_ms == 0


def records(response: Any) -> bytes:
    return b"".join(
        bytes(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )


@pytest.fixture
def slow(kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> InProcessBroker:
    """Every look at the clock of work finds 50 ms gone."""
    passed = iter(range(0, 1 << 40, 50_000_000))
    monkeypatch.setattr(kafka.clock, "work_ns", lambda: next(passed) + 1)
    return kafka


@pytest.mark.parametrize(
    ("request_", "version"),
    [(MetadataRequest(), 9), (produce(), CACHED), (produce(), DECODED), (fetch(), 12)],
)
def test_work_for_any_request_counts(
    slow: InProcessBroker, request_: Request, version: int
) -> None:
    set_quota(slow, "request_percentage", 2)
    throttled = [ask(slow, request_, version).throttle_time_ms for _ in range(6)]
    assert throttled[0] == 0
    assert throttled[-1] == 1000, "for a window at most"


@pytest.mark.parametrize("version", [CACHED, DECODED])
def test_work_counts_in_full_where_the_quota_has_ample_room(
    slow: InProcessBroker, version: int
) -> None:
    set_quota(slow, "request_percentage", 100)
    exchange = slow.begin(produce(), version, CLIENT)
    request = framed(produce(), version)
    for _ in range(20):
        exchange._connection.feed(request)
    # The work of a read lasts from the first look at the clock to the next, or the one after it.
    assert used(slow) == pytest.approx(21 * 5, abs=10)
    for _ in range(20):
        exchange._connection.feed(request * 2)
    assert used(slow) == pytest.approx(41 * 5, abs=10)


def test_work_is_not_counted_for_clients_without_that_quota(slow: InProcessBroker) -> None:
    set_quota(slow, "request_percentage", 0.01, user="somebody")
    assert all(ask(slow, MetadataRequest(), 9).throttle_time_ms == 0 for _ in range(5))


def test_the_clock_is_not_read_for_clients_without_that_quota(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(kafka.clock, "work_ns", lambda: looks.append(1) or len(looks))
    set_quota(kafka, "request_percentage", 50, client_id="somebody")
    exchange = kafka.begin(produce(), CACHED, CLIENT)
    looks.clear()
    for request, version in ((produce(), CACHED), (produce(), DECODED), (MetadataRequest(), 9)):
        exchange._connection.feed(framed(request, version))
    assert not looks
    set_quota(kafka, "request_percentage", 50)
    looks.clear()
    exchange._connection.feed(framed(produce(), DECODED))
    assert looks


@pytest.mark.parametrize("version", [CACHED, DECODED])
def test_work_counts_for_each_of_the_client_ids_of_a_connection(
    slow: InProcessBroker, version: int
) -> None:
    set_quota(slow, "request_percentage", 100)
    for client_id in ("other", CLIENT):
        ask(slow, produce(), version, client_id)
    exchange = slow.begin(produce(), version, "other")
    before = used(slow)
    for _ in range(20):
        exchange._connection.feed(framed(produce(), version, "other"))
        exchange._connection.feed(framed(produce(), version))
    # All reads but the first with this client id are measured: 50 ms at the least.
    assert used(slow) - before >= 19 * 5


def used(kafka: InProcessBroker) -> float:
    """What the client has used of its `request_percentage`, over all windows."""
    assert kafka.broker.quotas is not None
    [usage] = kafka.broker.quotas.usage(kafka.clock.now_ms())
    return usage.per_second * 10


def framed(request: Request, version: int, client_id: str = CLIENT) -> bytes:
    """The bytes of a request as they are sent, behind their size."""
    sent = frame(request, version, 1, client_id)
    return struct.pack(">i", len(sent)) + sent


def test_a_request_that_fails_counts(slow: InProcessBroker) -> None:
    set_quota(slow, "request_percentage", 1)
    bad = CreatePartitionsRequest(topics=[])
    assert throttle_ms(slow, bad, 3) == 0
    refused = fetch()
    refused.isolation_level = 7
    assert [ask(slow, refused, 12).throttle_time_ms for _ in range(3)][-1] > 0


def create(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    new = CreateTopicsRequest.CreatableTopic
    topics = [new(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


def test_a_strict_request_is_refused_in_part(kafka: InProcessBroker) -> None:
    set_quota(kafka, "controller_mutation_rate", 1)
    created = ask(kafka, create("a", "b", "c", partitions=8), 6)
    errors = {topic.name: topic.error_code for topic in created.topics}
    assert errors == {"a": 0, "b": 0, "c": Error.THROTTLING_QUOTA_EXCEEDED}
    assert created.throttle_time_ms == 5000  # 16 of 11 were taken.
    kafka.clock.advance(5000)
    assert ask(kafka, create("c"), 6).topics[0].error_code == 0


def test_an_older_version_is_served_and_throttled(kafka: InProcessBroker) -> None:
    set_quota(kafka, "controller_mutation_rate", 1)
    created = ask(kafka, create("a", "b", "c", partitions=8), 5)
    assert [topic.error_code for topic in created.topics] == [0, 0, 0]
    assert created.throttle_time_ms == 13_000
    deleted = ask(kafka, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 4)
    assert deleted.responses[0].error_code == 0
    assert deleted.throttle_time_ms == 21_000


@pytest.mark.parametrize("version", [4, 5])
def test_deleting_counts_the_partitions(kafka: InProcessBroker, version: int) -> None:
    set_quota(kafka, "controller_mutation_rate", 1, client_id=None)
    kafka.create("big", 12)
    deletion = DeleteTopicsRequest(topic_names=["big"], timeout_ms=1000)
    deleted = ask(kafka, deletion, version)
    assert deleted.responses[0].error_code == 0
    assert deleted.throttle_time_ms == (1000 if version == 4 else 0)
    refused = ask(kafka, create("later"), 7)
    assert refused.topics[0].error_code == Error.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms == 1000


def test_adding_partitions_counts_the_new_ones(kafka: InProcessBroker) -> None:
    set_quota(kafka, "controller_mutation_rate", 1)
    grown = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name=TOPIC, count=13, assignments=None)],
        timeout_ms=1000,
    )
    assert ask(kafka, grown, 3).results[0].error_code == 0
    grown.topics[0].count = 14
    exchange = kafka.begin(grown, 3, CLIENT)
    assert exchange.response.results[0].error_code == Error.THROTTLING_QUOTA_EXCEEDED
    assert exchange.response.throttle_time_ms == 1000 and is_muted(exchange)


def test_topics_that_are_created_on_first_use_take_the_clients_tokens(
    kafka: InProcessBroker,
) -> None:
    """They are refused without tokens, which neither the response nor a throttle time shows."""
    set_quota(kafka, "controller_mutation_rate", 0.1)

    def wanted(name: str) -> MetadataRequest:
        topic = MetadataRequest.Topic(name=name)
        return MetadataRequest(topics=[topic], allow_auto_topic_creation=True)

    for name, client_id in (("a", CLIENT), ("b", CLIENT), ("c", CLIENT), ("d", "other")):
        response = ask(kafka, wanted(name), 9, client_id)
        assert response.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert response.throttle_time_ms == 0
    assert kafka.broker.image.topics.keys() >= {"a", "b", "d"}
    assert "c" not in kafka.broker.image.topics, "1.1 tokens are enough for two"
    assert ask(kafka, create("e"), 7).throttle_time_ms == 9000
    kafka.clock.advance(9000)
    ask(kafka, wanted("c"), 9)
    assert "c" in kafka.broker.image.topics


def test_internal_topics_take_no_tokens_of_a_client(kafka: InProcessBroker) -> None:
    set_quota(kafka, "controller_mutation_rate", 0.1)
    ask(kafka, create("a", partitions=5), 7)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    assert ask(kafka, request, 4).coordinators[0].error_code == 0


def test_quotas_are_in_force_after_a_restart(tmp_path: Path, manual_clock: ManualClock) -> None:
    for is_first in (True, False):
        kafka = InProcessBroker(tmp_path / "data", manual_clock)
        if is_first:
            kafka.create(TOPIC)
            set_quota(kafka, "producer_byte_rate", 10)
            set_quota(kafka, "controller_mutation_rate", 0.1)
        assert ask(kafka, produce(), DECODED).throttle_time_ms > 0
        assert kafka.broker.controller.quotas
        kafka.stop()
