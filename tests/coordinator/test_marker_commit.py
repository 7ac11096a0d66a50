"""A transaction is complete when its markers are committed, not when they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.test_late_requests import FIRST, RawProducer
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from wirekafka.codec.batch import read_header
from wirekafka.coordinator.groups.commands import CommitOffsets, OffsetToCommit
from wirekafka.coordinator.transactions.markers import Ending
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.records.control import Marker
from wirekafka.replication.partition.internal_topics import OFFSETS_TOPIC
from wirekafka.replication.partition.partition import Partition
from wirekafka.runtime.machine import Producer


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create("t", 2)
    broker.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    yield broker
    broker.stop()


def ended(kafka: InProcessBroker) -> Partition:
    """A partition that has not synced the marker of a commit."""
    producer = RawProducer(kafka, "x")
    producer.versions = FIRST
    producer.start()
    producer.add_partitions()
    producer.produce()
    partition = kafka.partition("t", 1)
    partition.sync_later = lambda _: None
    partition.configure(partition.log.config.changed(flush_messages=1))
    producer.end(commits=True)
    return partition


def state(kafka: InProcessBroker) -> str:
    request = DescribeTransactionsRequest(transactional_ids=["x"])
    state: str = kafka.call(request, 0).transaction_states[0].transaction_state
    return state


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


def test_markers_that_cannot_be_written_are_logged_once(
    kafka: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = ended(kafka)
    partition.log.fail("no such medium")
    partition.wake()
    kafka.clock.advance(10_000)
    warnings = [each for each in caplog.messages if "are not written yet" in each]
    assert warnings == [
        "Markers of transaction x are not written yet: {('t', 1): 'KAFKA_STORAGE_ERROR'}"
    ]


def aborting(kafka: InProcessBroker) -> RawProducer:
    """A producer with an open transaction."""
    producer = RawProducer(kafka, "x")
    producer.versions = FIRST
    producer.start()
    producer.add_partitions()
    producer.produce()
    return producer


def test_a_marker_whose_writing_fails_is_written_later(
    kafka: InProcessBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = aborting(kafka)

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(kafka.broker.markers, "_write_one", fail)
        producer.end(commits=False)
        kafka.clock.advance(60_000)
        assert state(kafka) == "PrepareAbort"
    kafka.clock.advance(100)
    assert state(kafka) == "CompleteAbort"
    assert sum("a bug" in (each.exc_text or "") for each in caplog.records) == 1


def test_a_completion_that_cannot_be_appended_is_appended_later(
    kafka: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = aborting(kafka)
    appended = Partition.append
    refused = []

    def refuse(partition: Partition, batch: bytes) -> int:
        is_second = partition is log and partition.end_offset == before + 1
        if is_second and not refused:
            refused.append(batch)
            raise KafkaError(Error.NOT_ENOUGH_REPLICAS)
        return appended(partition, batch)

    transactions = kafka.broker.transactions
    log = kafka.partition("__transaction_state", transactions.partition_for("x"))
    before = log.end_offset
    monkeypatch.setattr(Partition, "append", refuse)
    producer.end(commits=False)
    assert refused and state(kafka) == "PrepareAbort"
    kafka.clock.advance(100)
    assert state(kafka) == "CompleteAbort"


def test_collected_offsets_precede_the_marker_of_a_transaction(
    tmp_path: Path, manual_clock: ManualClock
) -> None:
    kafka = InProcessBroker(
        tmp_path / "data", manual_clock, group_coordinator_append_linger_ms="50"
    )
    kafka.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    groups = kafka.broker.groups
    commit = CommitOffsets(
        group_id="g", generation_id=-1, member_id="", offsets=[OffsetToCommit("t", 0, 7)]
    )
    ticket = groups.shard_for("g").post(commit)
    index = groups.partition_for("g")
    offsets = kafka.partition(OFFSETS_TOPIC, index)
    assert offsets.end_offset == 0 and not ticket.done
    ending = Ending(Producer(7, 0), Marker(True, 0, manual_clock.now_ms()), 2)
    assert kafka.broker.markers.write(ending, [(OFFSETS_TOPIC, index)]) == {
        (OFFSETS_TOPIC, index): Error.NONE
    }
    assert [read_header(each).is_control for each in offsets.read_batches()] == [False, True]
    assert ticket.result() == [Error.NONE]
    kafka.stop()
