"""The controlled clock: timeouts of minutes and days expire at once."""

from __future__ import annotations

import time

import pytest

from tests.testing.clients import confluent_consumer, polled
from wirekafka import Broker
from wirekafka.testing import Record


def test_a_session_ends_when_time_advances(broker: Broker) -> None:
    broker.produce("t", [b"1"])
    consumer = confluent_consumer(broker, "g", **{"session.timeout.ms": 45_000})
    consumer.subscribe(["t"])
    polled(consumer)
    (before,) = broker.groups()[0].members
    started = time.monotonic()
    # A heartbeat that is served while time passes extends the session, but not by ten minutes.
    broker.clock.advance(minutes=10)
    assert before not in (broker.groups()[0].members if broker.groups() else ())
    assert time.monotonic() - started < 5
    consumer.close()


def test_retention_deletes_old_records(broker: Broker) -> None:
    broker.create_topic("t", retention_ms=3_600_000, segment_ms=600_000)
    broker.produce("t", [b"old"])
    broker.clock.advance(minutes=11)
    broker.produce("t", [b"newer"])
    assert [each.value for each in broker.records("t")] == [b"old", b"newer"]
    broker.clock.advance(minutes=50)
    assert [each.value for each in broker.records("t")] == [b"newer"]


def test_time_continues_from_where_it_was_moved(broker: Broker) -> None:
    before = broker.clock.now_ms
    broker.clock.advance(days=7)
    assert 0 <= broker.clock.now_ms - before - 7 * 86_400_000 < 5_000
    broker.produce("t", [b"1"])
    assert broker.records("t")[0].timestamp_ms >= before + 7 * 86_400_000


def test_frozen_time_stands_still_until_it_is_moved(broker: Broker) -> None:
    with broker.clock.freeze(at_ms=1_700_000_000_000) as clock:
        broker.produce("t", [b"1"])
        time.sleep(0.01)
        clock.advance(seconds=1)
        broker.produce("t", [b"2"])
        assert [each.timestamp_ms for each in broker.records("t")] == [
            1_700_000_000_000,
            1_700_000_001_000,
        ]
    first = broker.clock.now_ms
    broker.wait_for(lambda: broker.clock.now_ms > first)


def test_a_frozen_broker_still_serves(broker: Broker) -> None:
    with broker.clock.freeze():
        broker.produce("t", [Record(b"1", timestamp_ms=5)])
        consumer = confluent_consumer(broker, "g")
        consumer.subscribe(["t"])
        assert polled(consumer).timestamp()[1] == 5
        assert consumer.poll(0.7) is None  # Its fetches return without records, they do not hang.
        consumer.close()


def test_time_does_not_go_back(broker: Broker) -> None:
    with pytest.raises(ValueError, match="forward only"):
        broker.clock.advance(seconds=-1)


def test_compaction_happens_when_its_lag_is_over(broker: Broker) -> None:
    broker.create_topic(
        "t", cleanup_policy="compact", segment_ms=60_000, max_compaction_lag_ms=100_000
    )
    broker.produce("t", [("k", "1"), ("k", "2")])
    broker.clock.advance(minutes=5)
    broker.produce("t", [("other", "3")])
    broker.clock.advance(minutes=5)
    broker.wait_for(lambda: [each.value for each in broker.records("t")] == [b"2", b"3"])
