"""Idempotent and transactional producers; the results are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.codec.batch import BatchHeader, read_header
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Append, Origin
from wirekafka.log.producers import (
    BatchSpan,
    CompletedTransaction,
    CorruptSnapshot,
    ProducerStates,
    decode_snapshot,
)
from wirekafka.log.verification import Verifications
from wirekafka.protocol.records.control import Marker, encode_marker

CLIENT = Append(leader_epoch=0, now_ms=0)
COORDINATOR = Append(leader_epoch=0, now_ms=0, origin=Origin.COORDINATOR)
LAST_SEQUENCE = 2**31 - 1
NOW = 1_700_000_000_000


def header_of(
    producer: int, epoch: int, sequence: int, count: int = 1, *, transactional: bool = False
) -> BatchHeader:
    options = BatchOptions(
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return read_header(encode_batch([Record(timestamp=NOW)] * count, options=options))


class Log:
    """The part of a log that producers need: it appends and counts."""

    def __init__(self) -> None:
        self.states = ProducerStates("topic-0")
        self.batches: list[bytes] = []

    def append(
        self, producer: int, epoch: int, sequence: int, count: int = 1, **options: Any
    ) -> int | BatchSpan:
        """The base offset, or the earlier batch that this one repeats."""
        header = header_of(producer, epoch, sequence, count, **options)
        earlier = self.states.check(header, CLIENT)
        if earlier is not None:
            return earlier
        offset = self.states.end_offset
        self.states.update(header, offset)
        return offset

    def mark(
        self, producer: int, epoch: int, *, commit: bool = True, coordinator: int = 0
    ) -> CompletedTransaction | None:
        marker = Marker(commit, coordinator, NOW)
        header = read_header(encode_marker(producer, epoch, marker))
        self.states.check_marker(header, marker, 0)
        return self.states.update_marker(header, self.states.end_offset, marker)

    def refuses(self, producer: int, epoch: int, sequence: int, **options: Any) -> Error:
        before = self.states.encode_snapshot()
        with pytest.raises(KafkaError) as raised:
            self.append(producer, epoch, sequence, **options)
        assert self.states.encode_snapshot() == before
        return raised.value.error


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_duplicate_among_the_last_five_batches_gets_its_original_offset(log: Log) -> None:
    offsets = [log.append(1, 0, sequence * 3, 3) for sequence in range(7)]
    assert offsets == [0, 3, 6, 9, 12, 15, 18]
    for sequence in range(2, 7):
        earlier = log.append(1, 0, sequence * 3, 3)
        assert isinstance(earlier, BatchSpan)
        assert (earlier.first_offset, earlier.last_offset) == (sequence * 3, sequence * 3 + 2)
        assert earlier.timestamp == NOW
    assert log.refuses(1, 0, 3, count=3) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_has_the_same_first_and_last_sequence(log: Log) -> None:
    log.append(1, 0, 0, 3)
    assert log.refuses(1, 0, 0, count=2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.refuses(1, 0, 1, count=2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_sequence_gap_is_out_of_order(log: Log) -> None:
    log.append(1, 0, 0)
    assert log.refuses(1, 0, 2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(1, 0, 1) == 1


def test_sequences_wrap_after_the_largest_int(log: Log) -> None:
    log.append(1, 0, LAST_SEQUENCE - 1)
    log.append(1, 0, LAST_SEQUENCE)
    assert log.append(1, 0, 0) == 2
    log.append(2, 0, LAST_SEQUENCE - 1, 4)
    assert log.append(2, 0, 2) == 7
    assert log.append(2, 0, LAST_SEQUENCE - 1, 4) == (LAST_SEQUENCE - 1, 1, 3, 6, NOW)


def test_an_unknown_producer_may_start_at_any_sequence(log: Log) -> None:
    assert log.append(1, 5, 1_234) == 0


def test_a_new_producer_epoch_starts_at_sequence_0_when_an_epoch_is_known(log: Log) -> None:
    log.append(1, 0, 7)
    assert log.refuses(1, 1, 8) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(1, 1, 0) == 1
    assert log.refuses(1, 1, 8) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_stale_epoch_is_an_invalid_producer_epoch_even_for_a_duplicate(log: Log) -> None:
    log.append(1, 0, 0)
    log.append(1, 2, 0)
    assert log.refuses(1, 0, 0) is Error.INVALID_PRODUCER_EPOCH
    assert log.refuses(1, 1, 1) is Error.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_must_not_have_an_epoch_below_none(log: Log) -> None:
    assert log.refuses(5, -2, 0) is Error.INVALID_PRODUCER_EPOCH


def test_a_producer_without_an_epoch_may_send_any_sequence(log: Log) -> None:
    assert log.append(1, -1, 5) == 0
    assert log.append(1, -1, 9) == 1
    assert log.append(1, 0, 3) == 2


def test_sequences_of_coordinators_are_not_checked(log: Log) -> None:
    log.append(1, 0, 0)
    assert log.states.check(header_of(1, 0, 0), COORDINATOR) is None
    with pytest.raises(KafkaError):
        log.states.check(header_of(1, -1, 0), COORDINATOR)


# Transactions


def test_the_first_transactional_write_opens_a_transaction(log: Log) -> None:
    log.append(1, 0, 0)
    log.append(2, 0, 0, 3, transactional=True)
    log.append(2, 0, 3, transactional=True)
    assert log.states.first_unstable_offset == log.states.first_undecided_offset == 1
    assert log.states.has_open_transaction(2, 0)
    assert not log.states.has_open_transaction(2, 1) and not log.states.has_open_transaction(1, 0)


def test_a_plain_write_during_the_producers_own_transaction_is_an_invalid_txn_state(
    log: Log,
) -> None:
    log.append(1, 0, 0, transactional=True)
    assert log.refuses(1, 0, 1) is Error.INVALID_TXN_STATE


def test_markers_end_transactions_and_return_them(log: Log) -> None:
    log.append(1, 0, 0, transactional=True)
    log.append(2, 0, 0, transactional=True)
    assert log.mark(2, 0, commit=False) == CompletedTransaction(2, 1, 2, True, 0)
    assert log.mark(1, 0) == CompletedTransaction(1, 0, 3, False, 4)


def test_a_marker_without_a_transaction_completes_nothing(log: Log) -> None:
    assert log.mark(1, 0) is None
    producer = log.states.get(1)
    assert producer is not None and (producer.epoch, producer.coordinator_epoch) == (0, 0)


def test_a_decided_transaction_stays_unstable_until_it_is_replicated(log: Log) -> None:
    log.append(1, 0, 0, transactional=True)
    log.append(2, 0, 0, transactional=True)
    log.mark(1, 0)
    assert log.states.first_undecided_offset == 1
    assert log.states.first_unstable_offset == 0
    log.states.forget_stable(2)
    assert log.states.first_unstable_offset == 0
    log.states.forget_stable(3)
    assert log.states.first_unstable_offset == 1
    log.mark(2, 0)
    log.states.forget_stable(4)
    assert log.states.first_unstable_offset is None


def test_decided_transactions_are_unstable_from_the_first_of_them_on(log: Log) -> None:
    """Not from the first that was decided, which may have begun later."""
    log.append(1, 0, 0, transactional=True)
    log.append(2, 0, 0, transactional=True)
    log.mark(2, 0)
    log.mark(1, 0)
    assert log.states.first_unstable_offset == 0
    log.states.forget_stable(3)
    assert log.states.first_unstable_offset == 0
    log.states.forget_stable(4)
    assert log.states.first_unstable_offset is None


def test_a_stale_coordinator_epoch_is_fenced(log: Log) -> None:
    log.append(1, 0, 0, transactional=True)
    log.mark(1, 0, coordinator=5)
    log.append(1, 0, 1, transactional=True)
    with pytest.raises(KafkaError) as raised:
        log.mark(1, 0, coordinator=4)
    assert raised.value.error is Error.TRANSACTION_COORDINATOR_FENCED
    assert log.mark(1, 0, coordinator=5) is not None


def test_a_marker_of_an_older_epoch_is_an_invalid_producer_epoch(log: Log) -> None:
    log.append(1, 3, 0, transactional=True)
    with pytest.raises(KafkaError) as raised:
        log.mark(1, 2)
    assert raised.value.error is Error.INVALID_PRODUCER_EPOCH


def test_a_marker_with_a_new_epoch_resets_the_sequences(log: Log) -> None:
    log.append(1, 0, 0, 5, transactional=True)
    log.mark(1, 1)
    assert log.refuses(1, 1, 5, transactional=True) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(1, 1, 0, transactional=True) == 6


def test_a_marker_with_the_same_epoch_keeps_the_sequences(log: Log) -> None:
    log.append(1, 0, 0, 5, transactional=True)
    log.mark(1, 0)
    assert log.append(1, 0, 5, transactional=True) == 6


def test_under_transactions_v2_a_late_marker_cannot_end_the_next_transaction(log: Log) -> None:
    marker = Marker(True, 0, NOW)
    late = read_header(encode_marker(1, 1, marker))
    log.append(1, 0, 0, transactional=True)
    log.mark(1, 1)
    log.states.check_marker(late, marker, 2)  # A repetition is ignored.
    log.append(1, 1, 0, transactional=True)
    with pytest.raises(KafkaError) as raised:
        log.states.check_marker(late, marker, 2)
    assert raised.value.error is Error.INVALID_PRODUCER_EPOCH
    log.states.check_marker(late, marker, 1)  # Before V2 this cannot be detected.


def test_a_transaction_must_be_verified_where_verification_is_on(log: Log) -> None:
    log.states.verifications = verifications = Verifications()
    header = header_of(1, 0, 0, transactional=True)
    assert log.refuses(1, 0, 0, transactional=True) is Error.INVALID_TXN_STATE
    guard = verifications.begin(header, 0, supports_epoch_bump=False)
    assert log.refuses(1, 0, 0, transactional=True) is Error.INVALID_TXN_STATE
    append = Append(leader_epoch=0, now_ms=0, guard=guard)
    assert log.states.check(header, append) is None
    log.states.update(header, 0)
    assert log.append(1, 0, 1, transactional=True) == 1


def test_a_marker_invalidates_an_unused_verification(log: Log) -> None:
    log.states.verifications = verifications = Verifications()
    header = header_of(1, 0, 0, transactional=True)
    guard = verifications.begin(header, 0, supports_epoch_bump=False)
    log.mark(1, 0, commit=False)
    verifications.begin(header, 0, supports_epoch_bump=False)
    with pytest.raises(KafkaError) as raised:
        log.states.check(header, Append(leader_epoch=0, now_ms=0, guard=guard))
    assert raised.value.error is Error.INVALID_TXN_STATE


def test_a_marker_of_the_transaction_before_keeps_a_verification_of_v2(log: Log) -> None:
    log.states.verifications = verifications = Verifications()
    header = header_of(1, 1, 0, transactional=True)
    guard = verifications.begin(header, 0, supports_epoch_bump=True)
    log.mark(1, 1)  # With the epoch after the commit, which the next transaction has already.
    assert log.states.check(header, Append(leader_epoch=0, now_ms=0, guard=guard)) is None
    log.mark(1, 2)
    assert verifications.is_valid(1, guard) is False


def test_a_batch_verified_second_cannot_be_written_first() -> None:
    verifications = Verifications()
    first, second = header_of(1, 0, 0), header_of(1, 0, 1)
    guard = verifications.begin(second, 0, supports_epoch_bump=False)
    assert verifications.begin(first, 0, supports_epoch_bump=False) is guard
    with pytest.raises(KafkaError) as raised:
        verifications.check(second, guard, is_new_producer=True)
    assert raised.value.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    verifications.check(first, guard, is_new_producer=True)


def test_transactions_v2_begin_at_sequence_0_without_producer_state() -> None:
    verifications = Verifications()
    header = header_of(1, 0, 4)
    guard = verifications.begin(header, 0, supports_epoch_bump=True)
    verifications.check(header, guard, is_new_producer=False)
    with pytest.raises(KafkaError) as raised:
        verifications.check(header, guard, is_new_producer=True)
    assert raised.value.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_verifications_never_used_expire() -> None:
    verifications = Verifications()
    header = header_of(1, 0, 0)
    guard = verifications.begin(header, 100, supports_epoch_bump=False)
    verifications.expire(199, 100)
    verifications.check(header, guard, is_new_producer=True)
    verifications.expire(200, 100)
    with pytest.raises(KafkaError):
        verifications.check(header, guard, is_new_producer=True)


# Expiry, snapshots


def test_inactive_producers_expire_but_never_with_an_open_transaction(log: Log) -> None:
    log.append(1, 0, 0)
    log.append(2, 0, 0, transactional=True)
    assert log.states.expire(NOW + 999, 1_000) == 0
    assert log.states.expire(NOW + 1_000, 1_000) == 1
    assert [producer.producer_id for producer in log.states] == [2]


SNAPSHOT = bytes.fromhex(
    "0001b7e45d820000000100000000000dbba10001000000010000000000000006000000010000018bcfe56800"
    "ffffffffffffffffffffffff"
)
"""Apache Kafka's, after 900001 wrote epoch 0 to offset 4, then two records under epoch 1."""


def test_snapshots_are_read_and_written_as_kafka_writes_them() -> None:
    (producer,) = decode_snapshot(SNAPSHOT)
    assert (producer.producer_id, producer.epoch, producer.coordinator_epoch) == (900_001, 1, -1)
    assert producer.batches == [BatchSpan(0, 1, 5, 6, NOW)]
    assert producer.last_timestamp == NOW and producer.transaction_offset is None
    states = ProducerStates()
    states.load_snapshot(SNAPSHOT, 7)
    assert states.encode_snapshot() == SNAPSHOT and states.end_offset == 7


def test_after_a_snapshot_only_the_newest_batch_is_a_duplicate(log: Log) -> None:
    """As in Apache Kafka, whose snapshots have room for one batch of each producer.

    So the retries of up to four other batches in flight at a clean stop are out of order.
    """
    for sequence in range(5):
        log.append(1, 0, sequence)
    log.states.load_snapshot(log.states.encode_snapshot(), log.states.end_offset)
    assert isinstance(log.append(1, 0, 4), BatchSpan)
    for sequence in range(4):
        assert log.refuses(1, 0, sequence) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(1, 0, 5) == 5


def test_our_snapshot_of_the_same_writes_is_the_same_file(log: Log) -> None:
    for epoch, sequence, count in ((0, 0, 1), (0, 1, 3), (0, 4, 1), (1, 0, 2)):
        log.append(900_001, epoch, sequence, count)
    assert log.states.encode_snapshot() == SNAPSHOT


def test_a_snapshot_without_producers_has_ten_bytes() -> None:
    assert len(ProducerStates().encode_snapshot()) == 10
    assert decode_snapshot(ProducerStates().encode_snapshot()) == []


def test_open_transactions_are_restored_from_a_snapshot(log: Log) -> None:
    log.append(1, 0, 0, transactional=True)
    log.append(9, 0, 0, transactional=True)
    states = ProducerStates()
    states.load_snapshot(log.states.encode_snapshot(), 2)
    assert states.first_unstable_offset == 0
    marker = Marker(True, 0, NOW)
    states.update_marker(read_header(encode_marker(1, 0, marker)), 2, marker)
    assert states.first_undecided_offset == 1


def test_a_broken_snapshot_is_an_error_and_changes_nothing(log: Log) -> None:
    log.append(1, 0, 0)
    for at in range(len(SNAPSHOT)):
        flipped = bytearray(SNAPSHOT)
        flipped[at] ^= 0x10
        for broken in (bytes(flipped), SNAPSHOT[:at], SNAPSHOT + SNAPSHOT[: at + 1]):
            with pytest.raises(CorruptSnapshot):
                log.states.load_snapshot(broken, 7)
    assert [producer.producer_id for producer in log.states] == [1]


def test_only_the_newest_batch_is_known_after_a_restart(log: Log) -> None:
    log.append(1, 0, 0)
    log.append(1, 0, 1)
    log.states.load_snapshot(log.states.encode_snapshot(), 2)
    assert isinstance(log.append(1, 0, 1), BatchSpan)
    assert log.refuses(1, 0, 0) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_empty_batches_that_compaction_left_keep_the_sequence() -> None:
    states = ProducerStates()
    header = header_of(1, 0, 4, 3)._replace(base_offset=10, count=0)
    states.replay(header, b"")
    assert states.end_offset == 13
    assert states.check(header_of(1, 0, 7), CLIENT) is None


# Any history


class Write(NamedTuple):
    producer: int
    epoch_step: int
    sequence_step: int
    count: int
    transactional: bool


class Mark(NamedTuple):
    producer: int
    epoch_step: int
    commit: bool


producers = st.integers(1, 3)
writes = st.builds(
    Write, producers, st.sampled_from([0, 0, 0, 0, 1, -1]), st.sampled_from([0, 0, 0, 0, 1, -2]),
    st.integers(1, 3), st.booleans(),
)  # fmt: skip
marks = st.builds(Mark, producers, st.sampled_from([0, 0, 1]), st.booleans())
histories = st.lists(writes | writes | marks, max_size=40)


@settings(max_examples=150, deadline=None)
@given(history=histories, data=st.data())
def test_a_snapshot_and_a_replay_equal_a_scan(
    history: list[Write | Mark], data: st.DataObject
) -> None:
    batches = _accepted(history)
    scanned = _scan(batches, ProducerStates())
    cut = data.draw(st.integers(0, len(batches)))
    before = _scan(batches[:cut], ProducerStates())
    resumed = ProducerStates()
    resumed.load_snapshot(before.encode_snapshot(), before.end_offset)
    _scan(batches[cut:], resumed)
    assert resumed.encode_snapshot() == scanned.encode_snapshot()
    for states in (resumed, scanned):
        states.forget_stable(states.end_offset)
    assert resumed.first_unstable_offset == scanned.first_unstable_offset
    assert resumed.end_offset == scanned.end_offset


@settings(max_examples=150, deadline=None)
@given(history=histories)
def test_no_sequence_is_ever_written_twice_or_skipped(history: list[Write | Mark]) -> None:
    written: dict[tuple[int, int], int] = {}
    for batch in _accepted(history):
        header = read_header(batch)
        if header.is_control:
            continue
        key = header.producer_id, header.producer_epoch
        assert header.base_sequence == written.get(key, 0)
        written[key] = header.base_sequence + header.count


@settings(max_examples=100, deadline=None)
@given(history=histories)
def test_the_first_unstable_offset_is_the_first_open_transactional_record(
    history: list[Write | Mark],
) -> None:
    states = ProducerStates()
    opened: dict[int, int] = {}
    for batch in _accepted(history):
        header = read_header(batch)
        states.replay(header, batch)
        states.forget_stable(states.end_offset)
        if header.is_control:
            opened.pop(header.producer_id, None)
        elif header.is_transactional:
            opened.setdefault(header.producer_id, header.base_offset)
        assert states.first_unstable_offset == min(opened.values(), default=None)


def _scan(batches: list[bytes], states: ProducerStates) -> ProducerStates:
    for batch in batches:
        states.replay(read_header(batch), batch)
    return states


def _accepted(history: list[Write | Mark]) -> list[bytes]:
    """The log after these writes and marks, without refused and repeated ones."""
    states = ProducerStates()
    batches: list[bytes] = []
    for step in history:
        known = states.get(step.producer)
        epoch = max((known.epoch if known else 0) + step.epoch_step, 0)
        if isinstance(step, Mark):
            marker = Marker(step.commit, 0, NOW)
            batch = encode_marker(step.producer, epoch, marker)
            try:
                states.check_marker(read_header(batch), marker, 0)
            except KafkaError:
                continue
        else:
            same_epoch = known is not None and known.epoch == epoch
            last = known.last_sequence if known is not None and same_epoch else -1
            sequence = max(last + 1 + step.sequence_step, 0) if known else 0
            options = BatchOptions(
                producer_id=step.producer, producer_epoch=epoch, base_sequence=sequence,
                is_transactional=step.transactional,
            )  # fmt: skip
            batch = encode_batch([Record(timestamp=NOW)] * step.count, options=options)
            try:
                if states.check(read_header(batch), CLIENT) is not None:
                    continue
            except KafkaError:
                continue
        placed = states.end_offset.to_bytes(8, "big") + batch[8:]
        states.replay(read_header(placed), placed)
        batches.append(placed)
    return batches
