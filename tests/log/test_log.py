"""A log: appends, reads, lookups, truncation and configuration."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any

import pytest

from tests.log.batches import (
    DIRECTORY,
    NOW_MS,
    append,
    batch,
    end_transaction,
    from_producer,
    headers,
    new_log,
    read_all,
    read_bytes,
    reopened,
    values,
    with_config,
)
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.batch import read_header, with_prefix
from wirekafka.codec.compression import Codec
from wirekafka.errors import Error, KafkaError
from wirekafka.log import fetched_batches
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.log import Log
from wirekafka.log.lookup import TimestampOffset

APPEND_USUAL = fetched_batches.append_usual


def test_a_batch_gets_the_next_offset_and_the_leader_epoch_and_is_otherwise_unchanged() -> None:
    log = new_log()
    append(log, batch(b"a", b"b", b"c"))
    sent = batch(b"d")
    appended = append(log, sent, epoch=7)
    stored = read_all(log)[1]
    assert (appended.base_offset, appended.end_offset) == (3, 4)
    (header,) = headers(stored)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert stored[16:] == sent[16:]
    assert log.end_offset_for_epoch(0) == (0, 3)


def test_appended_batches_are_read_back_in_order() -> None:
    random = Random(1)
    log = new_log(segment_bytes=2000, index_interval_bytes=100)
    sent = [batch(random.randbytes(random.randrange(200))) for _ in range(200)]
    for one in sent:
        append(log, one)
    assert len(log.segments) > 5
    assert values(read_all(log)) == values(sent)


def test_a_read_may_start_within_a_batch_and_returns_it_completely() -> None:
    log = new_log()
    append(log, batch(b"a", b"b", b"c"))
    assert headers(read_bytes(log, 2))[0].base_offset == 0


def test_a_read_stops_at_the_given_end() -> None:
    log = new_log()
    for _ in range(10):
        append(log, batch())
    found = b"".join(log.read(2, 1 << 20, end_offset=5).buffers())
    assert [header.base_offset for header in headers(found)] == [2, 3, 4]
    assert log.read(5, 1 << 20, end_offset=5).size_bytes == 0
    assert log.read(7, 1 << 20, end_offset=5).size_bytes == 0


def test_a_read_returns_exactly_max_bytes_with_the_last_batch_cut() -> None:
    log = new_log()
    size_bytes = len(batch())
    for _ in range(10):
        append(log, batch())
    found = read_bytes(log, 0, max_bytes=3 * size_bytes + 10)
    assert len(found) == 3 * size_bytes + 10
    assert len(headers(found)) == 3


def test_the_first_batch_is_returned_completely_even_above_max_bytes() -> None:
    log = new_log()
    append(log, batch(b"x" * 500))
    append(log, batch())
    assert len(read_bytes(log, 0, max_bytes=1)) == len(batch(b"x" * 500))
    assert log.read(0, 0, end_offset=2, at_least_one=False).size_bytes == 0


def test_reading_at_the_end_is_empty_and_beyond_it_out_of_range() -> None:
    log = new_log()
    append(log, batch())
    assert log.read(1, 100, end_offset=1).buffers() == []
    for offset in (-1, 2):
        with pytest.raises(KafkaError) as raised:
            log.read(offset, 100, end_offset=1)
        assert raised.value.error == Error.OFFSET_OUT_OF_RANGE


def test_a_reader_at_the_tail_sees_each_batch_once() -> None:
    log = new_log(segment_bytes=1500)
    offset = 0
    for number in range(100):
        if number % 3 == 0:
            assert read_bytes(log, offset) == b""
        append(log, batch(b"%d" % number))
        (header,) = headers(read_bytes(log, offset))
        assert header.base_offset == offset == number
        offset = header.end_offset


def test_reads_at_many_offsets_and_ends_equal_a_scan() -> None:
    random = Random(3)
    log = new_log(segment_bytes=3000, index_interval_bytes=200)
    for number in range(120):
        append(log, batch(*[b"v"] * random.randrange(1, 5)))
        for _ in range(5):
            end = random.randrange(log.end_offset + 1)
            start = random.randrange(end + 1)
            data = b"".join(log.read(start, 1 << 20, end_offset=end).buffers())
            found = headers(data)
            assert len(data) == sum(header.size_bytes for header in found), number
            if start < end and found:
                assert found[0].base_offset <= start < found[0].end_offset
                assert found[-1].end_offset <= end or found[-1].base_offset < end


def test_a_slice_can_be_read_after_its_segment_was_retired() -> None:
    log = new_log(segment_bytes=200, retention_bytes=0)
    for number in range(10):
        append(log, batch(b"%d" % number))
    held = log.read(0, 1 << 20, end_offset=10)
    expected = b"".join(held.buffers())
    assert log.delete_old_segments(NOW_MS) > 0
    assert b"".join(held.buffers()) == expected
    log.delete_retired(NOW_MS + 60_000)
    assert b"".join(held.buffers()) == expected


def test_a_slice_has_the_region_of_the_file() -> None:
    log = new_log()
    append(log, batch())
    append(log, batch())
    ((file, position, size_bytes),) = log.read(1, 1 << 20, end_offset=2).regions()
    assert (position, size_bytes) == (len(batch()), len(batch()))
    assert file.path == f"{DIRECTORY}/{0:020d}.log"


def test_a_repeated_batch_gets_its_first_offset_and_is_not_written_again() -> None:
    log = new_log()
    append(log, batch())
    first = append(log, from_producer(9, 0))
    append(log, batch())
    again = append(log, from_producer(9, 0))
    assert (again.base_offset, again.duplicate) == (first.base_offset, True)
    assert log.end_offset == 3


def test_a_gap_in_the_sequence_is_refused_and_changes_nothing() -> None:
    log = new_log()
    append(log, from_producer(9, 0))
    before = log.size_bytes
    with pytest.raises(KafkaError) as raised:
        append(log, from_producer(9, 2))
    assert raised.value.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (log.size_bytes, log.end_offset) == (before, 1)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_is_a_storage_error_and_leaves_no_trace(code: int) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, from_producer(9, 0))
    before = disk.files()
    disk.failures[disk.operations] = code
    with pytest.raises(KafkaError) as raised:
        append(log, from_producer(9, 1))
    assert raised.value.error == Error.KAFKA_STORAGE_ERROR
    assert disk.files() == before and log.end_offset == 1
    assert not append(log, from_producer(9, 1)).duplicate
    assert len(read_all(log)) == 2


@pytest.mark.long
def test_every_single_failing_operation_leaves_a_log_that_works() -> None:
    """Rolls, snapshots, epochs, indexes: each write fails once, the producer tries again."""
    quiet = SimulatedDisk()
    _append_many(new_log(quiet, segment_bytes=400, index_interval_bytes=50), 60)
    for number in range(5, quiet.operations):
        disk = SimulatedDisk()
        log = new_log(disk, segment_bytes=400, index_interval_bytes=50)
        disk.failures[number] = errno.EIO
        _append_many(log, 60)
        assert values(read_all(log)) == values([from_producer(9, n) for n in range(60)])
        disk.failures.clear()
        log.close()
        again = reopened(disk, clean=True)
        assert again.end_offset == 60
        assert values(read_all(again)) == values(read_all(log))


def _append_many(log, count: int) -> None:
    for sequence in range(count):
        for _ in range(3):
            try:
                append(log, from_producer(9, sequence), epoch=sequence // 20)
                break
            except KafkaError as error:
                assert error.error == Error.KAFKA_STORAGE_ERROR


def test_batches_that_were_destroyed_on_disk_are_corrupt_to_readers_and_the_others_are_not() -> (
    None
):
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=200)
    for number in range(9):
        append(log, batch(b"%d" % number, timestamp=NOW_MS + number))
    first = disk.file(log.segments[0].file.path).data
    first[:] = bytes(12) + first
    reads = (lambda: log.read(0, 10_000, end_offset=9), lambda: log.offset_for_timestamp(NOW_MS))
    for read in reads:
        with pytest.raises(KafkaError) as raised:
            read()
        assert raised.value.error == Error.CORRUPT_MESSAGE
        assert "position 0" in str(raised.value.message)
    later = log.segments[1].base_offset
    assert log.read(later, 10_000, end_offset=9).size_bytes > 0
    assert log.offset_for_timestamp(NOW_MS + later) == TimestampOffset(NOW_MS + later, later, 0)
    # Nobody sent these: what has to change the log stops instead of trying again.
    with pytest.raises(KafkaError) as raised:
        log.truncate_to(1, NOW_MS)
    assert raised.value.error == Error.KAFKA_STORAGE_ERROR


def test_a_full_disk_refuses_appends_until_there_is_room_again() -> None:
    disk = SimulatedDisk(capacity_bytes=2000)
    log = new_log(disk)
    acknowledged = 0
    for _ in range(50):
        try:
            append(log, batch())
            acknowledged += 1
        except KafkaError:
            break
    assert 5 < acknowledged < 50
    assert len(read_all(log)) == acknowledged
    disk.capacity_bytes = 1 << 20
    append(log, batch())
    assert len(read_all(log)) == acknowledged + 1


def test_a_log_that_refuses_appends_can_still_be_read() -> None:
    log = new_log()
    append(log, batch())
    log.refusal = "disk full"
    log.config = with_config(log.config, segment_ms=5)
    with pytest.raises(KafkaError, match="disk full"):
        append(log, batch())
    assert len(read_all(log)) == 1
    log.refusal = None
    append(log, batch())
    assert log.end_offset == 2


def test_a_follower_writes_batches_as_they_are() -> None:
    leader, follower = new_log(), new_log()
    for epoch in (0, 0, 3, 4):
        append(leader, batch(b"a", b"b"), epoch=epoch)
    append(leader, from_producer(9, 0, transactional=True), epoch=4)
    data = read_bytes(leader)
    follower.append_as_follower(data + data[:30], NOW_MS)
    assert read_bytes(follower) == data
    assert follower.end_offset == leader.end_offset
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.first_unstable_offset == 8
    with pytest.raises(KafkaError) as raised:
        follower.append_as_follower(data, NOW_MS)
    assert raised.value.error == Error.OFFSET_OUT_OF_RANGE


def test_random_batches_are_received_as_usual_ones_and_as_others_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`append_usual` is the fast twin of `checked` and of what follows it."""
    assert sum(_usual_of_history(seed, monkeypatch) for seed in range(30)) > 300


def _usual_of_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compare two followers of a random leader; returns how many responses were usual."""
    random = Random(seed)
    config = {"segment_bytes": random.choice((2_000, 100_000)), "index_interval_bytes": 100}
    leader, usual, other = (new_log(**config) for _ in range(3))
    epoch = 0
    sequences = count()
    for number in range(60):
        epoch += random.random() < 0.05
        if random.random() < 0.7:
            values = [random.randbytes(random.choice((0, 10, 300)))] * random.choice((1, 2))
            append(leader, batch(*values, timestamp=NOW_MS + random.randrange(9)), epoch=epoch)
        elif random.random() < 0.8:
            append(leader, from_producer(3, next(sequences)), epoch=epoch)
        else:
            append(leader, from_producer(100 + number, 0, transactional=True), epoch=epoch)
            end_transaction(leader, 100 + number, commit=random.random() < 0.5)
    stored, at = read_all(leader), 0
    served: list[bool] = []
    while at < len(stored):
        end = at + random.choice((1, 1, 2, 5))
        data = bytearray(b"".join(stored[at:end]))
        newest = random.choice((epoch,) * 9 + (0,))
        harm = random.random()
        if harm < 0.1:
            data[random.randrange(len(data))] ^= random.choice((1, 128))
        elif harm < 0.2:
            del data[-random.randrange(1, len(data)) :]
        elif harm < 0.3:
            data = bytearray(b"".join(stored[max(at - 1, 0) : end]))
        results = []
        for log in (usual, other):

            def noted(*arguments: Any, log: Log = log) -> bool:
                return log is usual and (served.append(APPEND_USUAL(*arguments)) or served[-1])

            monkeypatch.setattr(fetched_batches, "append_usual", noted)
            try:
                log.append_as_follower(data, NOW_MS, newest)
                results.append(None)
            except KafkaError as error:
                results.append(error.error)
        assert results[0] == results[1], (seed, at)
        assert read_bytes(usual) == read_bytes(other)
        for name in ("end_offset", "first_unstable_offset"):
            assert getattr(usual, name) == getattr(other, name)
        assert usual.epochs.entries == other.epochs.entries
        assert usual.producers.encode_snapshot() == other.producers.encode_snapshot()
        at = next((n for n, each in enumerate(stored) if base_of(each) >= usual.end_offset), 60_000)
    return sum(served)


def base_of(stored: bytes) -> int:
    return read_header(stored).base_offset


def test_a_follower_that_gets_batches_one_by_one_has_the_same_log_as_with_all_at_once() -> None:
    config = {"segment_bytes": 1000, "index_interval_bytes": 100}
    leader, at_once, one_by_one = (new_log(**config) for _ in range(3))
    for number in range(60):
        records = batch(b"a" * 30, b"b", timestamp=NOW_MS + number * 7 % 50)
        append(leader, records, epoch=number // 20)
        append(leader, from_producer(number % 3, number // 3), epoch=number // 20)
    append(leader, from_producer(9, 0, transactional=True), epoch=2)
    end_transaction(leader, 9, commit=False)
    append(leader, from_producer(9, 1, transactional=True), epoch=2)
    stored = read_all(leader)
    at_once.append_as_follower(b"".join(stored), NOW_MS)
    for each in stored:
        one_by_one.append_as_follower(memoryview(each), NOW_MS)
    assert read_all(one_by_one) == read_all(at_once) == stored
    assert len(one_by_one.segments) > 5
    assert one_by_one.epochs.entries == at_once.epochs.entries == leader.epochs.entries
    assert one_by_one.first_unstable_offset == leader.first_unstable_offset
    snapshots = {log.producers.encode_snapshot() for log in (leader, at_once, one_by_one)}
    assert len(snapshots) == 1
    end = leader.end_offset
    assert one_by_one.aborted_transactions(0, end) == leader.aborted_transactions(0, end) != []
    for timestamp in range(NOW_MS, NOW_MS + 51):
        found = one_by_one.offset_for_timestamp(timestamp)
        assert found == leader.offset_for_timestamp(timestamp)


def test_a_follower_that_gets_batches_in_any_pieces_has_the_same_log_as_with_all_at_once() -> None:
    config = {"segment_bytes": 1000, "index_interval_bytes": 100}
    leader, at_once = new_log(**config), new_log(**config)
    for number in range(60):
        records = batch(b"a" * 30, b"b", timestamp=NOW_MS + number * 7 % 50)
        append(leader, records, epoch=number // 20)
        append(leader, from_producer(number % 3, number // 3), epoch=number // 20)
        if number % 25 == 24:
            append(leader, from_producer(9, number // 25, transactional=True), epoch=number // 20)
            end_transaction(leader, 9, commit=False)
    stored = b"".join(read_all(leader))
    at_once.append_as_follower(stored, NOW_MS)
    for seed in range(20):
        random, log, at = Random(seed), new_log(**config), 0
        while log.end_offset < leader.end_offset:
            size = random.choice((100, 300, 900, 2000))
            log.append_as_follower(memoryview(stored)[at : at + size], NOW_MS)
            at = sum(map(len, read_all(log)))
        assert read_all(log) == read_all(at_once)
        assert log.epochs.entries == leader.epochs.entries
        assert log.producers.encode_snapshot() == leader.producers.encode_snapshot()
        for timestamp in range(NOW_MS, NOW_MS + 51):
            assert log.offset_for_timestamp(timestamp) == leader.offset_for_timestamp(timestamp)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_follower_writes_nothing_if_any_batch_of_a_response_is_broken(epoch: int) -> None:
    """In a usual response, and in one with a new leader epoch, which is processed otherwise."""
    leader, follower = new_log(), new_log()
    for _ in range(2):
        append(leader, batch(b"abcdef"))
    append(leader, batch(b"abcdef"), epoch=epoch)
    intact, second, third = read_all(leader)
    follower.append_as_follower(intact, NOW_MS)
    corrupt = bytearray(third)
    corrupt[-3] ^= 1
    for rest, error in (
        (bytes(corrupt), Error.CORRUPT_MESSAGE),
        (second, Error.OFFSET_OUT_OF_RANGE),
        (third + bytes(20), Error.CORRUPT_MESSAGE),
        (third + bytes(80), Error.CORRUPT_MESSAGE),
    ):
        with pytest.raises(KafkaError) as raised:
            follower.append_as_follower(second + rest, NOW_MS)
        assert raised.value.error == error
        assert read_all(follower) == [intact]
    follower.append_as_follower(second + third + third[:70], NOW_MS)
    assert read_all(follower) == [intact, second, third]


def test_a_follower_leaves_out_a_single_batch_of_a_later_epoch_or_that_is_cut_off() -> None:
    leader, follower = new_log(), new_log()
    for epoch in (2, 3):
        append(leader, batch(b"abcdef"), epoch=epoch)
    first, second = read_all(leader)
    follower.append_as_follower(first, NOW_MS, 2)
    follower.append_as_follower(second, NOW_MS, 2)
    follower.append_as_follower(second[:-1], NOW_MS, 3)
    follower.append_as_follower(second[:40], NOW_MS, 3)
    assert read_all(follower) == [first]
    assert follower.epochs.latest == 2
    with pytest.raises(KafkaError) as raised:
        follower.append_as_follower(first, NOW_MS, 3)
    assert raised.value.error == Error.OFFSET_OUT_OF_RANGE
    follower.refusal = "disk full"
    with pytest.raises(KafkaError, match="disk full"):
        follower.append_as_follower(second, NOW_MS, 3)
    follower.refusal = None
    follower.append_as_follower(second, NOW_MS, 3)
    assert read_all(follower) == [first, second]


def test_a_follower_appends_a_batch_again_after_any_operation_has_failed() -> None:
    leader, quiet = new_log(), SimulatedDisk()
    for number in range(30):
        append(leader, from_producer(9, number), epoch=number // 10)
    stored = read_all(leader)
    _follow_many(new_log(quiet, segment_bytes=400, index_interval_bytes=50), stored)
    pairs = [b"".join(stored[at : at + 2]) for at in range(0, len(stored), 2)]
    for number in range(5, quiet.operations):
        disk = SimulatedDisk()
        log = new_log(disk, segment_bytes=400, index_interval_bytes=50)
        disk.failures[number] = errno.EIO
        _follow_many(log, stored if number % 2 else pairs)
        assert read_all(log) == stored
        assert log.epochs.entries == leader.epochs.entries


def _follow_many(log: Log, stored: Sequence[bytes]) -> None:
    for each in stored:
        for _ in range(3):
            try:
                log.append_as_follower(each, NOW_MS)
                break
            except KafkaError as error:
                assert error.error == Error.KAFKA_STORAGE_ERROR


def test_a_follower_refuses_a_broken_batch() -> None:
    leader, follower = new_log(), new_log()
    append(leader, batch(b"abcdef"))
    append(leader, batch(b"abcdef"))
    intact, data = map(bytearray, read_all(leader))
    follower.append_as_follower(intact, NOW_MS)
    data[-3] ^= 1
    with pytest.raises(KafkaError) as raised:
        follower.append_as_follower(data, NOW_MS)
    assert raised.value.error == Error.CORRUPT_MESSAGE
    assert follower.end_offset == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_a_timestamp_finds_the_first_record_at_or_after_it(codec: Codec) -> None:
    log = new_log(index_interval_bytes=100, segment_bytes=1000)
    for number in range(50):
        append(log, batch(b"a", b"b", b"c", timestamp=NOW_MS + 10 * number, compression=codec))
    assert log.offset_for_timestamp(0) == TimestampOffset(NOW_MS, 0, 0)
    assert log.offset_for_timestamp(NOW_MS + 101) == TimestampOffset(NOW_MS + 101, 31, 0)
    assert log.offset_for_timestamp(NOW_MS + 105) == TimestampOffset(NOW_MS + 110, 33, 0)
    assert log.offset_for_timestamp(NOW_MS + 492) == TimestampOffset(NOW_MS + 492, 149, 0)
    assert log.offset_for_timestamp(NOW_MS + 493) is None


def test_timestamps_out_of_order_find_the_first_in_the_order_of_the_log() -> None:
    random = Random(4)
    log = new_log(index_interval_bytes=100, segment_bytes=2000)
    times = [NOW_MS + random.randrange(1000) for _ in range(150)]
    for time in times:
        append(log, batch(timestamp=time))
    for wanted in range(NOW_MS - 1, NOW_MS + 1001, 7):
        expected = next((n for n, time in enumerate(times) if time >= wanted), None)
        found = log.offset_for_timestamp(wanted)
        assert (found and found.offset) == expected
    newest = log.max_timestamp_offset()
    assert newest == TimestampOffset(max(times), times.index(max(times)), 0)


def test_the_newest_timestamp_is_found_within_its_batch() -> None:
    log = new_log()
    assert log.max_timestamp_offset() is None
    append(log, batch(b"a", b"b", b"c"))
    append(log, batch(b"a", timestamp=NOW_MS + 1))
    assert log.max_timestamp_offset() == TimestampOffset(NOW_MS + 2, 2, 0)


def test_records_below_the_start_cannot_be_read() -> None:
    log = new_log()
    for _ in range(10):
        append(log, batch())
    log.advance_start(4)
    assert log.offset_for_timestamp(0) == TimestampOffset(NOW_MS, 4, 0)
    with pytest.raises(KafkaError) as raised:
        log.read(3, 100, end_offset=10)
    assert raised.value.error == Error.OFFSET_OUT_OF_RANGE
    log.advance_start(2)
    assert log.start_offset == 4


def test_reads_return_the_aborted_transactions_of_their_offsets() -> None:
    log = new_log(segment_bytes=300)
    append(log, from_producer(1, 0, transactional=True))
    append(log, from_producer(2, 0, transactional=True))
    assert log.first_unstable_offset == 0
    end_transaction(log, 1, commit=False)
    append(log, batch())
    end_transaction(log, 2, commit=True)
    append(log, from_producer(1, 1, transactional=True))
    end_transaction(log, 1, commit=False)
    log.producers.forget_stable(log.end_offset)
    assert log.first_unstable_offset is None
    first = AbortedTransaction(1, 0, 2, 1)
    second = AbortedTransaction(1, 5, 6, 7)
    assert len(log.segments) > 1
    assert log.aborted_transactions(0, 7) == [first, second]
    assert log.aborted_transactions(3, 7) == [second]
    assert log.aborted_transactions(1, 4) == [first]


def test_an_abort_survives_a_transaction_index_that_could_not_be_written() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, from_producer(1, 0, transactional=True))
    disk.failures[disk.operations + 1] = errno.ENOSPC
    end_transaction(log, 1, commit=False)
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
    log.close()
    assert reopened(disk, clean=True).aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]


def test_truncation_removes_offsets_epochs_timestamps_and_producers() -> None:
    log = new_log(segment_bytes=1000, index_interval_bytes=100)
    for number in range(60):
        append(log, from_producer(7, number), epoch=number // 10)
    append(log, from_producer(8, 0, transactional=True), epoch=6)
    kept = read_all(log)[:35]
    log.truncate_to(35, NOW_MS)
    assert log.end_offset == 35 and log.first_unstable_offset is None
    assert read_all(log) == kept
    assert log.epochs.latest == 3
    assert not append(log, from_producer(7, 35), epoch=9).duplicate
    assert append(log, from_producer(7, 34), epoch=9).duplicate
    assert log.producers.get(8) is None


def test_truncation_at_every_offset_equals_a_log_that_ended_there() -> None:
    for offset in range(0, 30, 3):
        long, short = (
            new_log(segment_bytes=500, index_interval_bytes=60),
            new_log(segment_bytes=500, index_interval_bytes=60),
        )
        for number in range(30):
            append(long, batch(timestamp=NOW_MS + number % 7))
            if number < offset:
                append(short, batch(timestamp=NOW_MS + number % 7))
        long.truncate_to(offset, NOW_MS)
        assert read_all(long) == read_all(short)
        assert long.end_offset == short.end_offset
        assert long.max_timestamp_offset() == short.max_timestamp_offset()
        append(long, batch())
        append(short, batch())
        assert read_all(long) == read_all(short)


def test_full_truncation_starts_over_at_an_offset() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=500)
    for number in range(30):
        append(log, from_producer(7, number))
    log.truncate_fully_at(1000, NOW_MS)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (1000, 1000, 0)
    assert append(log, from_producer(7, 3)).base_offset == 1000
    assert reopened(disk, start_offset=1000).end_offset == 1001


def test_a_new_configuration_takes_effect_at_once() -> None:
    log = new_log()
    for _ in range(5):
        append(log, batch())
    assert len(log.segments) == 1
    log.config = with_config(log.config, segment_bytes=100)
    append(log, batch())
    assert len(log.segments) == 2


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = new_log(segment_bytes=100)
    with pytest.raises(KafkaError) as raised:
        append(log, batch(b"x" * 200))
    assert raised.value.error == Error.RECORD_LIST_TOO_LARGE


def test_a_flush_moves_the_recovery_point_and_leaves_nothing_unsynced() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=500)
    for number in range(30):
        append(log, from_producer(7, number))
    flush = log.begin_flush()
    assert flush is not None
    append(log, from_producer(7, 30))
    flush.run()
    log.finish_flush(flush)
    assert log.recovery_point == 30
    assert log.begin_flush() is not None
    log.flush()
    assert log.begin_flush() is None and log.recovery_point == 31


def test_the_metadata_log_flushes_with_one_sync_for_a_batch() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, batch())
    log.flush()
    append(log, batch())
    before = disk.operations
    log.flush()
    assert disk.log[before:] == [f"fsync {DIRECTORY}/{0:020d}.log"]


def test_each_offset_is_found_among_batches_of_every_size_and_gaps_between_them() -> None:
    random = Random(5)
    follower = new_log(index_interval_bytes=200)
    ends = []
    for _ in range(120):
        each = [b"v" * random.choice((1, 40, 400)) for _ in range(random.randint(1, 4))]
        begin = follower.end_offset + random.choice((0, 0, 3))
        follower.append_as_follower(b"".join(with_prefix(batch(*each), begin, 0)), NOW_MS)
        ends.append(follower.end_offset)
    for offset in range(follower.end_offset):
        found = follower.segments.active.find(offset)
        assert found is not None
        assert found[1].end_offset == next(end for end in ends if end > offset)
    assert follower.segments.active.find(follower.end_offset) is None
