"""Produce requests served without decoding: same responses and logs as with the handler."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.raw_client import frame
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.frame import decode_response
from wirekafka.codec.message import MalformedMessage
from wirekafka.log.log import Log
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.replication.partition.partition import Leadership
from wirekafka.server.connections import produce_cache
from wirekafka.server.connections.pipeline import Pipeline, Refused
from wirekafka.server.connections.produce_cache import ProduceCache
from wirekafka.server.connections.replies import Replies

Topic = ProduceRequest.TopicProduceData
Data = Topic.PartitionProduceData


class Client:
    """One connection's requests, one at a time; records which the cache served."""

    def __init__(self, kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch):
        self.call = Call(kafka.broker)
        self.repeated: list[bool] = []
        self._pipeline = Pipeline()
        serve = ProduceCache.serve

        def watched(cache: ProduceCache, *arguments: Any) -> bool:
            self.cache = cache
            self.repeated.append(serve(cache, *arguments))
            return self.repeated[-1]

        monkeypatch.setattr(ProduceCache, "serve", watched)

    @property
    def remembered(self) -> dict[bytes, Any]:
        """The cache's entry for this client's requests of version 9."""
        return dict(self.cache._known.get(self.call.client.identity, {}).get(9, {}))

    def send(self, payload: bytes) -> bytes:
        """The response to one request, empty for none."""
        replies = Replies()
        data = memoryview(b"size" + payload)
        parked = self._pipeline.serve(data, 4, len(data), self.call, replies)
        assert parked is None
        return b"".join(map(bytes, replies.buffers)) + bytes(replies.tail)

    def produce(self, records: Any, version: int = 9, **options: Any) -> Any:
        """The response for the one partition."""
        data = self.send(frame(request_of(records, **options), version, 7, "me"))
        correlation_id, response = decode_response(ProduceResponse, version, data[4:])
        assert struct.unpack_from(">i", data) == (len(data) - 4,) and correlation_id == 7
        [topic] = response.responses
        assert (topic.name, topic.topic_id) == (
            (options.get("topic", "t"), bytes(16)) if version < 13 else ("", options["topic_id"])
        )
        [answer] = topic.partition_responses
        return answer


def request_of(
    records: Any, topic: str = "t", *, index: int = 0, acks: int = 1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            Topic(
                name=topic, topic_id=topic_id, partition_data=[Data(index=index, records=records)]
            )
        ],
    )


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    yield broker
    broker.stop()


@pytest.fixture
def client(kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> Client:
    kafka.create("t", 2)
    return Client(kafka, monkeypatch)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(9, 14))
def test_repeated_requests_are_served_by_the_cache(
    kafka: InProcessBroker, client: Client, version: int, acks: int
) -> None:
    options = {"acks": acks, "topic_id": kafka.partition("t").topic_id}
    answers = [
        client.produce(batch(value), version, **options)
        for value in (b"a", b"bc", b"d" * 300, b"e" * 20_000)
    ]
    assert client.repeated == [False, True, True, True]
    assert [
        (answer.index, answer.error_code, answer.base_offset, answer.log_start_offset)
        for answer in answers
    ] == [(0, 0, offset, 0) for offset in range(4)]
    assert kafka.partition("t").high_watermark == 4


@pytest.mark.parametrize("client_id", [None, "", "a" * 300])
def test_requests_with_any_client_id_are_cached(
    kafka: InProcessBroker, client: Client, client_id: str | None
) -> None:
    payload = frame(request_of(batch()), 9, 7, client_id)
    assert client.send(payload) and client.send(payload)
    assert client.repeated == [False, True] and kafka.partition("t").end_offset == 2


def test_a_change_of_partition_topic_or_acks_is_no_repetition(
    kafka: InProcessBroker, client: Client
) -> None:
    kafka.create("other")
    for _ in range(2):
        for options in ({}, {"index": 1}, {"acks": -1}, {"topic": "other"}):
            assert client.produce(batch(), **options).error_code == 0
    assert client.repeated == [False] * 4 + [True] * 4
    assert [kafka.partition(*key).end_offset for key in (("t", 0), ("t", 1), ("other", 0))] == [
        4,
        2,
        2,
    ]


def test_acks_0_gets_no_response(kafka: InProcessBroker, client: Client) -> None:
    payload = frame(request_of(batch(), acks=0), 9, 7, "me")
    assert [client.send(payload) for _ in range(3)] == [b""] * 3
    assert client.repeated == [False, True, True]
    assert kafka.partition("t").end_offset == 3


def test_log_append_time_is_returned(kafka: InProcessBroker, client: Client) -> None:
    kafka.create("stamped", message_timestamp_type="LogAppendTime")
    for repeated in (False, True):
        assert client.produce(batch(), topic="stamped").log_append_time_ms == kafka.clock.now_ms()
        assert client.repeated[-1] is repeated


def corrupt(records: bytes) -> bytes:
    return records[:-1] + b"~"


def cut(records: bytes) -> bytes:
    return records[:40]


def test_a_refused_batch_gets_its_error_from_the_handler(
    kafka: InProcessBroker, client: Client
) -> None:
    client.produce(batch())
    refused = {
        corrupt(batch()): 2,
        cut(batch()): 87,
        b"": 87,
        batch() + batch(): 87,
        batch(is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=0): 53,
    }
    for records, error in refused.items():
        answer = client.produce(records)
        assert (answer.error_code, answer.base_offset) == (error, -1)
    assert not any(client.repeated) and kafka.partition("t").end_offset == 1
    assert client.produce(batch()).base_offset == 1 and client.repeated[-1]


def test_sequences_are_checked(kafka: InProcessBroker, client: Client) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0}
    for sequence in range(3):
        client.produce(batch(base_sequence=sequence, **producer))
    assert client.produce(batch(base_sequence=1, **producer)).base_offset == 1
    assert client.repeated == [False, True, True, True]
    assert client.produce(batch(base_sequence=9, **producer)).error_code == 45
    assert kafka.partition("t").end_offset == 3


Change = Callable[[InProcessBroker], Any]


def give_up_leadership(kafka: InProcessBroker) -> None:
    kafka.partition("t").follow(Leadership(leader_id=2, leader_epoch=5, replicas=(1, 2), isr=(2,)))


def have_every_message_flushed(kafka: InProcessBroker) -> None:
    log: Log = kafka.partition("t").log
    kafka.create("synced", flush_messages="1")
    kafka.partition("t").configure(kafka.partition("synced").log.config)
    assert log.config.flush_messages == 1


@pytest.mark.parametrize(
    ("change", "error"), [(give_up_leadership, 6), (have_every_message_flushed, 0)]
)
def test_a_partition_that_is_led_elsewhere_or_synced_is_left_to_the_handler(
    kafka: InProcessBroker, client: Client, change: Change, error: int
) -> None:
    client.produce(batch())
    change(kafka)
    assert client.produce(batch(), acks=1).error_code == error
    assert client.repeated == [False, False]


def test_a_deleted_topic_is_unknown_and_a_recreated_one_has_its_own_entry(
    kafka: InProcessBroker, client: Client
) -> None:
    old = {"version": 13, "topic_id": kafka.partition("t").topic_id}
    client.produce(batch())
    client.produce(batch(), **old)
    now(kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
    assert client.produce(batch()).error_code == 3
    assert client.produce(batch(), **old).error_code == 100
    kafka.create("t")
    assert client.produce(batch(), **old).error_code == 100
    assert not any(client.repeated)
    for offset, repeated in ((0, False), (1, True)):
        assert client.produce(batch()).base_offset == offset and client.repeated[-1] is repeated
    assert kafka.partition("t").end_offset == 2


def test_a_truncated_or_tagged_request_is_left_to_the_decoder(
    kafka: InProcessBroker, client: Client
) -> None:
    payload = frame(request_of(batch()), 9, 7, "me")
    client.send(payload)
    for length in range(10, len(payload)):
        with pytest.raises((MalformedMessage, UnicodeDecodeError, Refused)):
            client.send(payload[:length])
    known = client.remembered
    tagged = payload[:-1] + b"\x01\x09\x02ab"  # One unknown tagged field.
    assert client.send(tagged)
    assert client.remembered == known
    assert not any(client.repeated) and kafka.partition("t").end_offset == 2
    assert client.send(payload) and client.repeated[-1]


def test_requests_with_another_layout_are_not_cached(
    kafka: InProcessBroker, client: Client
) -> None:
    payload = frame(request_of(batch()), 9, 7, "me")
    tagged = payload[:12] + b"\x01\x09\x02ab" + payload[13:]  # In the header.
    for _ in range(2):
        assert client.send(tagged)
    assert not client.remembered and not any(client.repeated)
    assert kafka.partition("t").end_offset == 2


def test_internal_topics_are_left_to_the_handler(kafka: InProcessBroker, client: Client) -> None:
    kafka.create("__consumer_offsets")
    payload = frame(request_of(batch(), "__consumer_offsets"), 9, 7, "__admin_client")
    for _ in range(2):
        assert client.send(payload)
    assert client.repeated == [False, False]
    assert kafka.partition("__consumer_offsets").end_offset == 2


def test_the_size_of_the_cache_is_bounded(
    kafka: InProcessBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_cache, "_MOST", 4)
    for number in range(10):
        client.send(frame(request_of(batch()), 9, 7, f"client {number}"))
        assert len(client.remembered) <= 4
    assert client.send(frame(request_of(batch()), 9, 7, "client 9")) and client.repeated[-1]


def test_an_entry_is_not_used_for_another_principal(kafka: InProcessBroker, client: Client) -> None:
    for principal, repeated in (
        ("User:ann", False),
        ("User:ann", True),
        ("User:bob", False),
        ("User:ann", True),
        ("User:bob", True),
    ):
        client.call.authenticated(principal)
        assert client.produce(batch()).error_code == 0
        assert client.repeated[-1] is repeated
    elsewhere = Call(kafka.broker, client_host="/10.0.0.7")
    elsewhere.authenticated("User:ann")
    client.call = elsewhere
    assert client.produce(batch()).error_code == 0 and not client.repeated[-1]


def test_a_client_that_must_authenticate_is_served_nothing(
    kafka: InProcessBroker, client: Client
) -> None:
    for _ in range(2):
        client.produce(batch())
    client.call.client.require_authentication()
    with pytest.raises(Refused):
        client.produce(batch())
    assert client.repeated == [False, True, False] and kafka.partition("t").end_offset == 2


def test_a_change_of_the_metadata_clears_the_cache(kafka: InProcessBroker, client: Client) -> None:
    for _ in range(2):
        client.produce(batch())
        client.produce(batch(), index=1)
    assert client.repeated == [False, False, True, True] and len(client.remembered) == 2
    kafka.create("another")
    client.produce(batch())
    assert not client.repeated[-1] and len(client.remembered) == 1
    client.produce(batch())
    assert client.repeated[-1]


def test_brokers_of_one_process_do_not_share_entries(
    tmp_path: Path,
    kafka: InProcessBroker,
    client: Client,
    manual_clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client.produce(batch())
    other = InProcessBroker(tmp_path / "other", manual_clock)
    other.create("t", 2)
    stranger = Client(other, monkeypatch)
    stranger.produce(batch())
    assert not stranger.repeated[-1] and other.partition("t").end_offset == 1
    client.produce(batch())
    assert kafka.partition("t").end_offset == 2 and other.partition("t").end_offset == 1
    other.stop()


def test_a_hook_sees_every_request(kafka: InProcessBroker) -> None:
    kafka.create("t")
    seen = []

    class Watching:
        def handle(self, route: Route, request: Any, call: Call) -> Any:
            seen.append(route.api.name)
            return route.handle(request, call)

    pipeline, call = Pipeline(Watching()), Call(kafka.broker)
    data = memoryview(frame(request_of(batch()), 9, 7, "me"))
    for _ in range(3):
        pipeline.serve(data, 0, len(data), call, Replies())
    assert seen == ["Produce"] * 3 and kafka.partition("t").end_offset == 3
