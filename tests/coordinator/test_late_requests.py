"""Late or repeated requests of a transaction never affect another one (KAFKA-17754)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.simulation.reader import visible
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from wirekafka.protocol.describe_transactions import DescribeTransactionsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.produce import ProduceRequest

ORDERINGS = 500
PARTITIONS = 2
SECOND = {"start": 5, "produce": 12, "end": 5}
FIRST = {"start": 4, "produce": 11, "end": 4}


class RawProducer:
    """A transactional producer that keeps copies of its requests to send them again later."""

    def __init__(self, kafka: InProcessBroker, name: str, seed: int = 0):
        self.kafka = kafka
        self.random = Random(seed)
        self.late: list[tuple[Request, int]] = []
        self.value = seed * 1_000
        self.expected: set[int] = set()
        self.versions = SECOND
        self.sequences = [0] * PARTITIONS
        self.id = name

    def start(self) -> None:
        answer = self.kafka.call(
            InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000),
            self.versions["start"],
        )
        assert answer.error_code == 0
        self.identity = answer.producer_id, answer.producer_epoch

    def produce(self, *, delays: bool = False) -> int:
        self.value += 1
        index = self.random.randrange(PARTITIONS)
        records = batch(
            str(self.value).encode(), producer_id=self.identity[0],
            producer_epoch=self.identity[1], base_sequence=self.sequences[index],
            is_transactional=True,
        )  # fmt: skip
        self.sequences[index] += 1
        kind = ProduceRequest.TopicProduceData
        part = kind.PartitionProduceData(index=index, records=records)
        self._ask(
            ProduceRequest(transactional_id=self.id, acks=-1, timeout_ms=1_000,
                           topic_data=[kind(name="t", partition_data=[part])]),
            "produce", delays=delays,
        )  # fmt: skip
        return self.value

    def add_partitions(self) -> None:
        answer = self.kafka.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.identity[0],
                v3_and_below_producer_epoch=self.identity[1],
                v3_and_below_topics=[Topic(name="t", partitions=list(range(PARTITIONS)))],
            ),
            3,
        )
        codes = [
            each.partition_error_code
            for each in answer.results_by_topic_v3_and_below[0].results_by_partition
        ]
        assert codes == [0] * PARTITIONS

    def end(self, *, commits: bool, delays: bool = False) -> None:
        producer_id, epoch = self.identity
        answer = self._ask(
            EndTxnRequest(transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch,
                          committed=commits),
            "end", delays=delays,
        )  # fmt: skip
        if self.versions is SECOND:
            self.identity = answer.producer_id, answer.producer_epoch
            self.sequences = [0] * PARTITIONS

    def deliver_late(self, count: int) -> None:
        """Send some of the copies, and ignore the responses."""
        for _ in range(min(count, len(self.late))):
            self.kafka.call(*self.late[self.random.randrange(len(self.late))])

    def _ask(self, request: Request, name: str, *, delays: bool) -> Any:
        """The response to a request; with `delays`, one of the kept copies arrives before it."""
        version = self.versions[name]
        self.late.append((request, version))
        if not delays:
            answer = self.kafka.call(request, version)
            assert _error(answer) is Error.NONE, request
            if self.random.random() < 0.3:
                assert _error(self.kafka.call(request, version)) is Error.NONE, "a retry"
            return answer
        self.deliver_late(1)
        answer = self.kafka.call(request, version)
        assert _error(answer) is Error.NONE, request
        return answer


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock)
    broker.create("t", PARTITIONS)
    broker.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    yield broker
    broker.stop()


@pytest.mark.long
def test_late_and_repeated_requests_never_reach_another_transaction(kafka: InProcessBroker) -> None:
    expected: set[int] = set()
    for seed in range(ORDERINGS):
        producer = RawProducer(kafka, f"x-{seed}", seed)
        producer.start()
        expected |= _transactions(producer)
        assert _described(kafka, producer.id) in ("CompleteCommit", "CompleteAbort"), seed
    # Each value once: as many records as values, and no value that was not committed.
    found = [value for index in range(PARTITIONS) for value in _committed(kafka, index)]
    assert len(found) == len(set(found))
    assert set(found) == expected


def _transactions(producer: RawProducer) -> set[int]:
    """Run a few transactions while old requests arrive; returns the committed values."""
    random = producer.random
    committed: set[int] = set()
    for _ in range(random.randint(3, 5)):
        values = set()
        for _ in range(random.randint(1, 3)):
            producer.deliver_late(random.choice([0, 0, 1, 2, 4]))
            values.add(producer.produce(delays=random.random() < 0.3))
        producer.deliver_late(random.choice([0, 1, 3]))
        commits = random.random() < 0.6
        producer.end(commits=commits, delays=random.random() < 0.4)
        if commits:
            committed |= values
    producer.deliver_late(5)
    return committed


def test_a_late_commit_of_the_first_generation_commits_what_follows_as_in_kafka(
    kafka: InProcessBroker,
) -> None:
    producer = RawProducer(kafka, "old")
    producer.versions = FIRST
    producer.start()
    producer.add_partitions()
    producer.produce()
    producer.end(commits=True)
    late_commit = producer.late[-1]
    producer.add_partitions()
    value = producer.produce()
    kafka.call(*late_commit)
    found = [each for index in range(PARTITIONS) for each in _committed(kafka, index)]
    assert value in found, "which is why clients moved to the second generation"


def _committed(kafka: InProcessBroker, index: int) -> list[int]:
    """The values that read_committed sees."""
    found: list[int] = []
    position = 0
    while True:
        kind = FetchRequest.Topic
        part = kind.Partition(partition=index, fetch_offset=position, partition_max_bytes=1 << 20)
        answer = kafka.call(
            FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1,
                         topics=[kind(topic="t", partitions=[part])]), 12
        )  # fmt: skip
        data = answer.responses[0].partitions[0]
        if data.last_stable_offset == position:
            assert data.high_watermark == position, "a transaction is left open"
            return found
        records, position = visible(data, position)
        found += [value for _, value in records]


def _described(kafka: InProcessBroker, transactional_id: str) -> str:
    answer = kafka.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    state: str = answer.transaction_states[0].transaction_state
    return state


def _error(answer: Any) -> Error:
    if hasattr(answer, "responses"):
        return Error(answer.responses[0].partition_responses[0].error_code)
    return Error(answer.error_code)
