"""The report of recorded requests: offsets, numbers of records, earliest or latest."""

from __future__ import annotations

import re
import traceback

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.eventually import eventually
from tests.testing.clients import send
from wirekafka import Broker


def test_a_fetch_is_reported_with_its_offset_and_the_number_of_records(broker: Broker) -> None:
    broker.create_topic("read")
    broker.produce("read", ["1", "2", "3"])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("read", 0, 1)])
    assert eventually(lambda: consumer.poll(1)).offset() == 1
    pattern = r"Fetch v\d+ \(read-0\) -> ok; read-0: 3 records from offset 1"
    eventually(lambda: re.search(pattern, str(broker.requests)))
    consumer.commit(offsets=[TopicPartition("read", 0, 2)], asynchronous=False)
    assert consumer.committed([TopicPartition("read", 0)])[0].offset == 2
    consumer.close()
    report = str(broker.requests)
    assert re.search(r"OffsetCommit v\d+ .* -> ok; read-0: commits offset 2", report)
    assert re.search(r"OffsetFetch v\d+ .* -> ok; read-0: committed offset 2", report)


def test_a_produce_request_is_reported_with_its_records_and_their_offset(broker: Broker) -> None:
    broker.create_topic("written")
    broker.produce("written", ["1"])
    assert send("confluent-kafka", broker, "written") is None
    assert "written-0: 1 record at offset 1" in str(broker.requests)


def test_a_search_for_offsets_is_reported_as_earliest_or_latest(broker: Broker) -> None:
    broker.create_topic("searched")
    broker.produce("searched", ["1", "2"])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    assert consumer.get_watermark_offsets(TopicPartition("searched", 0)) == (0, 2)
    consumer.offsets_for_times([TopicPartition("searched", 0, 5)])
    consumer.close()
    report = str(broker.requests)
    for expected in ("earliest is 0", "latest is 2", "first offset since 5 ms is 0"):
        assert f"-> ok; searched-0: {expected}" in report


def test_a_failed_assertion_is_shown_in_the_test_and_not_in_this_package(broker: Broker) -> None:
    def frames(error: BaseException) -> list[bool]:
        return [
            bool(frame.f_locals.get("__tracebackhide__"))
            for frame, _ in traceback.walk_tb(error.__traceback__)
        ]

    with pytest.raises(AssertionError) as requested:
        broker.requests.assert_requested("EndTxn")
    with pytest.raises(AssertionError) as committed:
        broker.requests.assert_committed("g", "t", 0, 1)
    with pytest.raises(TimeoutError) as awaited:
        broker.wait_for(lambda: False, timeout_s=0)
    with pytest.raises(AssertionError) as required, broker.fail("EndTxn", 7, required=True):  # type: ignore[arg-type]
        pass
    for raised in (requested, committed, awaited, required):
        assert frames(raised.value) == [False, True]
