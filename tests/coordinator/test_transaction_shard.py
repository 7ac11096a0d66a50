"""The transaction state machine; the expected responses are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from wirekafka.coordinator.transactions.commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    ListTransactions,
    MarkersWritten,
    ProducerIdentity,
    StartProducer,
    VerifyPartitions,
)
from wirekafka.coordinator.transactions.records import TransactionRecord, TransactionRecordCodec
from wirekafka.coordinator.transactions.shard import TransactionConfig, TransactionShard
from wirekafka.coordinator.transactions.transaction import Transaction, TransactionState
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Ticket

FIRST, SECOND = 0, 2
TOPIC = frozenset({("t", 0)})


class FreshIds:
    def __init__(self) -> None:
        self._ids = count(100)

    def take(self) -> int:
        return next(self._ids)


class Shard:
    """The machine with a clock and its records; markers are written before a command returns."""

    def __init__(self) -> None:
        self.machine = TransactionShard(TransactionConfig(), FreshIds())
        self.now_ms = 1_000_000
        self.records: list[TransactionRecord] = []
        self.writes_markers = True

    def __call__(self, command: Any) -> Any:
        ticket = Ticket()
        try:
            outcome = self.machine.decide(command, ticket, self.now_ms)
        except KafkaError as error:
            return error.error
        self._replay(outcome.records)
        ((_, reply),) = outcome.replies
        return reply.error if isinstance(reply, KafkaError) else reply

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        timers = self.machine.timers
        while (key := timers.next_due(self.now_ms)) is not None:
            timers.cancel(key)
            self._replay(self.machine.tick(key, self.now_ms).records)

    def finish(self) -> None:
        for name, transaction in self.machine.undecided():
            self(
                MarkersWritten(
                    name, ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
                )
            )

    def start(self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000) -> Any:
        identity = ProducerIdentity(*expected) if expected else None
        return self(StartProducer("x", timeout_ms, identity))

    def add(
        self, producer: Any, version: int = SECOND, partitions: frozenset[tuple[str, int]] = TOPIC
    ) -> Any:
        return self(AddPartitions("x", ProducerIdentity(*producer), partitions, version))

    def end(self, producer: Any, commit: bool, version: int = SECOND) -> Any:
        return self(EndTransaction("x", ProducerIdentity(*producer), commit, version))

    @property
    def transaction(self) -> Transaction:
        found: Transaction = self(DescribeTransaction("x"))
        return found

    def _replay(self, records: Any) -> None:
        for record in records:
            self.records.append(record)
            self.machine.replay(record)
        if self.writes_markers and records:
            self.finish()


@pytest.fixture
def shard() -> Shard:
    return Shard()


def test_first_start_gives_epoch_zero_and_every_other_bumps_it(shard: Shard) -> None:
    assert shard.start() == (100, 0)
    assert shard.start() == (100, 1)


def test_timeout_must_be_positive_and_within_the_broker_limit(shard: Shard) -> None:
    assert shard.start(timeout_ms=0) == Error.INVALID_TRANSACTION_TIMEOUT
    assert shard.start(timeout_ms=900_001) == Error.INVALID_TRANSACTION_TIMEOUT
    assert shard.start(timeout_ms=900_000) == (100, 0)


def test_start_during_a_transaction_aborts_it_and_bumps_the_epoch_once(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0), FIRST)
    assert shard.start() == Error.CONCURRENT_TRANSACTIONS
    assert shard.transaction.state is TransactionState.COMPLETE_ABORT
    assert shard.transaction.producer_epoch == 1
    assert shard.start() == (100, 2)


def test_second_generation_commit_returns_the_bumped_epoch(shard: Shard) -> None:
    shard.start()
    assert shard.add((100, 0)) is None
    assert shard.end((100, 0), commit=True) == (100, 1)
    assert shard.transaction.state is TransactionState.COMPLETE_COMMIT


def test_retried_end_of_the_second_generation_is_idempotent(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0))
    shard.end((100, 0), commit=True)
    assert shard.end((100, 0), commit=True) == (100, 1)
    assert shard.end((100, 0), commit=False) == Error.INVALID_TXN_STATE


def test_delayed_end_cannot_reach_the_next_transaction(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0))
    shard.end((100, 0), commit=False)
    shard.add((100, 1))
    assert shard.end((100, 0), commit=True) == Error.PRODUCER_FENCED
    assert shard.end((100, 0), commit=False) == Error.PRODUCER_FENCED
    assert shard.end((100, 1), commit=True) == (100, 2)


def test_first_generation_keeps_its_epoch_and_may_end_again(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0), FIRST)
    assert shard.end((100, 0), True, FIRST) == (100, 0)
    assert shard.end((100, 0), True, FIRST) == (100, 0)
    assert shard.end((100, 0), False, FIRST) == Error.INVALID_TXN_STATE
    assert shard.end((100, 0), True, SECOND) == Error.INVALID_TXN_STATE


def test_abort_of_nothing_moves_the_epoch_in_the_second_generation_only(shard: Shard) -> None:
    shard.start()
    assert shard.end((100, 0), False, FIRST) == Error.INVALID_TXN_STATE
    assert shard.end((100, 0), True, SECOND) == Error.INVALID_TXN_STATE
    assert shard.end((100, 0), False, SECOND) == (100, 1)


def test_an_end_while_markers_are_pending_is_concurrent_whatever_its_outcome(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0), FIRST)
    shard.writes_markers = False
    shard.end((100, 0), True, FIRST)
    assert shard.end((100, 0), True, FIRST) == Error.CONCURRENT_TRANSACTIONS
    assert shard.end((100, 0), False, FIRST) == Error.CONCURRENT_TRANSACTIONS
    assert shard.add((100, 0), FIRST) == Error.CONCURRENT_TRANSACTIONS
    assert shard.start() == Error.CONCURRENT_TRANSACTIONS
    shard.finish()
    assert shard.add((100, 0), FIRST) is None


def test_stale_epochs_and_foreign_ids_are_refused(shard: Shard) -> None:
    shard.start()
    shard.start()
    assert shard.add((100, 0)) == Error.PRODUCER_FENCED
    assert shard.add((999, 1)) == Error.INVALID_PRODUCER_ID_MAPPING
    assert shard.end((100, 0), True) == Error.PRODUCER_FENCED
    assert shard.end((999, 1), True) == Error.INVALID_PRODUCER_ID_MAPPING
    assert shard(EndTransaction("other", ProducerIdentity(1, 1), True, SECOND)) == (
        Error.INVALID_PRODUCER_ID_MAPPING
    )


def test_recovering_producer_gets_the_next_epoch_once(shard: Shard) -> None:
    shard.start()
    assert shard.start((100, 0)) == (100, 1)
    assert shard.start((100, 0)) == (100, 1), "a retry keeps what was given"
    assert shard.start((100, 1)) == (100, 2)
    assert shard.start((100, 0)) == Error.PRODUCER_FENCED
    assert shard.start((105, 2)) == Error.PRODUCER_FENCED


@pytest.mark.long
def test_producer_ids_rotate_at_start_when_epochs_are_used_up(shard: Shard) -> None:
    identity = shard.start()
    while identity[1] < 32_766:
        identity = shard.start()
    assert shard.start() == (101, 0)


@pytest.mark.long
def test_producer_ids_rotate_at_end_when_epochs_are_used_up(shard: Shard) -> None:
    identity = shard.start()
    while identity[1] < 32_766:
        identity = shard.start()
    shard.add(identity)
    assert shard.end(identity, True) == (101, 0)
    assert shard.transaction.producer_id == 101
    assert shard.end(identity, True) == (101, 0), "a retry under the old id"
    prepared = shard.records[-2].transaction
    assert prepared is not None
    assert (prepared.producer_epoch, prepared.next_producer_id) == (32_767, 101)


def test_transaction_that_takes_too_long_is_aborted_with_a_bump(shard: Shard) -> None:
    shard.start(timeout_ms=1500)
    shard.add((100, 0), FIRST)
    shard.advance(1499)
    assert shard.transaction.state is TransactionState.ONGOING
    shard.advance(1)
    assert shard.transaction.state is TransactionState.COMPLETE_ABORT
    assert shard.end((100, 0), True, FIRST) == Error.PRODUCER_FENCED
    assert shard.end((100, 0), True, SECOND) == Error.INVALID_TXN_STATE
    assert shard.add((100, 0), FIRST) == Error.PRODUCER_FENCED
    assert shard.start((100, 0)) == (100, 1)


def test_unused_transactional_id_expires(shard: Shard) -> None:
    shard.start()
    shard.advance(604_799_999)
    assert shard.transaction.producer_id == 100
    shard.advance(1)
    assert shard(DescribeTransaction("x")) == Error.TRANSACTIONAL_ID_NOT_FOUND
    assert shard.records[-1] == ("x", None)


def test_verification_returns_the_partitions_of_the_open_transaction(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0), FIRST)
    both = frozenset({("t", 0), ("t", 1)})
    assert shard(VerifyPartitions("x", ProducerIdentity(100, 0), both)) == TOPIC
    assert shard(VerifyPartitions("x", ProducerIdentity(100, 1), both)) == Error.PRODUCER_FENCED
    assert shard(VerifyPartitions("y", ProducerIdentity(100, 0), both)) == (
        Error.INVALID_PRODUCER_ID_MAPPING
    )


def test_listing_filters_by_state_producer_and_age(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0))
    shard.advance(50)
    assert [name for name, _ in shard(ListTransactions())] == ["x"]
    assert shard(ListTransactions(frozenset({"Empty"}))) == []
    assert [name for name, _ in shard(ListTransactions(frozenset({"Ongoing"})))] == ["x"]
    assert shard(ListTransactions(producer_ids=frozenset({7}))) == []
    assert shard(ListTransactions(longer_than_ms=50)) == []
    assert len(shard(ListTransactions(longer_than_ms=49))) == 1


def test_replay_of_the_records_rebuilds_the_machine(shard: Shard) -> None:
    shard.start()
    shard.add((100, 0))
    shard.end((100, 0), commit=True)
    shard.add((100, 1))
    codec = TransactionRecordCodec()
    fresh = TransactionShard(TransactionConfig(), FreshIds())
    batch = codec.encode(shard.records, shard.now_ms, None)
    for record in codec.decode(batch):
        fresh.replay(record)
    known = [(name, each.to_value()) for name, each in fresh.snapshot()]
    assert known == [(name, each.to_value()) for name, each in shard.machine.snapshot()]


KAFKA_WROTE = """
0001000000000000000200000000ea600000000001a1fdfbec07ffffffffffffffff0100080000000000000002
0001000000000000000200020000ea600301000001a1fdfbec1f000001a1fdfbec1f020008000000000000000202020002
0001000000000000000200030000ea6003020b7074782d37383730363103000000010000000000000001a1fdfbed870000\
01a1fdfbed5b020008000000000000000202020002
000100000000000000067fff0000ea6002020b7074782d366166353238020000000000000001a1fdfd7e26000001a1fdfd\
7e2103000800000000000000060108000000000000000702020002
0001000000000000000700000000ea600401000001a1fdfd7e27000001a1fdfd7e21020008000000000000000602020002
""".split()  # noqa: SIM905


@pytest.mark.parametrize("value", KAFKA_WROTE)
def test_values_are_byte_for_byte_those_of_kafka(value: str) -> None:
    codec = TransactionRecordCodec()
    key = b"\0\0\0\x01x"
    record = codec.unpack(key, bytes.fromhex(value))
    assert record is not None
    _, packed = codec.pack(record)
    assert packed is not None
    # Kafka lists partitions in hash order; ours are sorted.
    assert sorted(packed) == sorted(bytes.fromhex(value))
