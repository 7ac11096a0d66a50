"""Recorded requests and responses, and the messages of failed assertions about them."""

from __future__ import annotations

import pytest

from tests.testing.clients import confluent_consumer, confluent_producer, deliver, polled, send
from wirekafka import Broker
from wirekafka.codec.record import decode_records
from wirekafka.errors import Error


def test_requests_are_decoded(broker: Broker) -> None:
    broker.create_topic("decoded", partitions=2)
    producer = confluent_producer(broker, **{"client.id": "me"})
    assert deliver(producer, "decoded", b"hello") is None
    (asked,) = broker.requests.of("Produce", client_id="me", topic="decoded")
    assert asked.request.acks == -1 and asked.is_done and asked.errors == []
    (partition,) = asked.request.topic_data[0].partition_data
    assert [each.value for each in decode_records(partition.records)] == [b"hello"]
    assert asked.response.responses[0].partition_responses[0].base_offset == 0
    about = f"decoded-{partition.index}"
    line = f"me Produce v{asked.version} ({about}) -> ok; {about}: 1 record at offset 0"
    assert str(asked).endswith(line)


def test_errors_are_found_at_any_depth(broker: Broker) -> None:
    with broker.fail("Produce", "INVALID_TIMESTAMP"):
        send("confluent-kafka", broker, "t")
    (asked,) = broker.requests.of("Produce")
    assert asked.errors == [Error.INVALID_TIMESTAMP]
    assert "INVALID_TIMESTAMP [fail(Produce, INVALID_TIMESTAMP)]" in str(asked)


def test_a_missing_commit_is_reported_with_the_recorded_ones(broker: Broker) -> None:
    broker.produce("t", [b"1", b"2"])
    consumer = confluent_consumer(broker, "g")
    consumer.subscribe(["t"])
    consumer.commit(polled(consumer), asynchronous=False)
    broker.requests.assert_committed("g", "t", 0, 1, times=1)
    with pytest.raises(AssertionError) as raised:
        broker.requests.assert_committed("g", "t", 0, 42, times=1)
    assert str(raised.value).startswith(
        "expected one commit by group g at offset 42 of t-0; saw:\n  offset 1: #"
    )
    consumer.close()


def test_a_missing_request_is_reported_with_the_recorded_ones(broker: Broker) -> None:
    assert send("confluent-kafka", broker, "t") is None
    assert broker.requests.assert_requested("Produce", times=1, topic="t")
    with pytest.raises(AssertionError, match=r"expected 2 Produce request\(s\) by topic t; saw 1"):
        broker.requests.assert_requested("Produce", times=2, topic="t")
    with pytest.raises(AssertionError, match=r"saw 0:\n(.*\n)*.*Metadata"):
        broker.requests.assert_requested("EndTxn")
    with pytest.raises(ValueError, match="'Produce'"):
        broker.requests.of("Produced")


def test_cleared_requests_are_removed(broker: Broker) -> None:
    assert send("confluent-kafka", broker, "t") is None
    assert len(broker.requests) > 0
    broker.requests.clear()
    assert broker.requests.of("Produce") == []


def test_the_number_of_recorded_requests_is_bounded(broker: Broker) -> None:
    broker.create_topic("t")
    producer = confluent_producer(broker, **{"batch.num.messages": 1})
    for _ in range(60):
        producer.produce("t", bytes(500_000))
    assert producer.flush(30) == 0
    kept = [
        partition.records
        for each in broker.requests.of("Produce")
        for topic in each.request.topic_data
        for partition in topic.partition_data
    ]
    assert len(kept) == 60 and kept[0] is None and kept[-1] is not None
    assert sum(len(records) for records in kept if records) <= 16 << 20
