"""A transaction is over when its markers are committed, not when they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.coordinator.test_late_requests import FIRST, RawProducer
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from wirekafka.apis.describe_transactions import DescribeTransactionsRequest
from wirekafka.apis.find_coordinator import FindCoordinatorRequest
from wirekafka.metadata.topics import DeleteTopics, TopicReference
from wirekafka.replication.partition import Partition


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create("t", 2)
    broker.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    yield broker
    broker.stop()


def ended(kafka: InProcessBroker) -> Partition:
    """A partition that has not synced the marker that a commit has brought."""
    producer = RawProducer(kafka, "x")
    producer.versions = FIRST
    producer.start()
    producer.add_partitions()
    producer.produce()
    partition = kafka.partition("t", 1)
    partition.sync_later = lambda _: None
    partition.configure(replace(partition.log.config, flush_messages=1))
    producer.end(commits=True)
    return partition


def state(kafka: InProcessBroker) -> str:
    request = DescribeTransactionsRequest(transactional_ids=["x"])
    told: str = kafka.call(request, 0).transaction_states[0].transaction_state
    return told


def test_a_transaction_waits_for_its_markers_to_be_synced(kafka: InProcessBroker) -> None:
    partition = ended(kafka)
    kafka.clock.advance(1_000)
    assert state(kafka) == "PrepareCommit"
    markers = partition.end_offset
    partition.log.flush()
    partition.synced()
    assert state(kafka) == "CompleteCommit"
    assert partition.end_offset == markers


def test_a_transaction_waits_no_longer_when_the_partition_is_deleted(
    kafka: InProcessBroker,
) -> None:
    ended(kafka)
    now(kafka.broker.controller.submit(DeleteTopics([TopicReference(name="t")])))
    kafka.clock.advance(1_000)
    assert state(kafka) == "CompleteCommit"


def test_markers_that_cannot_be_written_are_told_of_once(
    kafka: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = ended(kafka)
    partition.log.fail("no such medium")
    partition.wake()
    kafka.clock.advance(10_000)
    told = [each for each in caplog.messages if "are not written yet" in each]
    assert told == ["Markers of transaction x are not written yet: "
                    "{('t', 1): 'KAFKA_STORAGE_ERROR'}"]
