"""Opening a log after a clean stop, a crash, a cut or a flipped bit."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest

from tests.log.batches import (
    DIRECTORY,
    append,
    batch,
    end_transaction,
    from_producer,
    headers,
    new_log,
    read_all,
    reopened,
    values,
)
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.batch import with_prefix
from wirekafka.config.topic_config import TopicConfig
from wirekafka.log.aborted_index import AbortedTransaction
from wirekafka.log.epochs import EpochEntry
from wirekafka.log.log import Log
from wirekafka.log.recovery import CorruptLog
from wirekafka.log.scan import LARGEST_RELATIVE_OFFSET

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=100)
FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"


def busy_log(disk: SimulatedDisk, segment_bytes: int = 1000) -> Log:
    """Several segments with two producers, one of them transactional, and two epochs."""
    log = new_log(disk, segment_bytes=segment_bytes, index_interval_bytes=100)
    for number in range(20):
        append(log, from_producer(1, number), epoch=number // 10)
        append(log, from_producer(2, number, transactional=True), epoch=number // 10)
        if number % 4 == 3 and number < 19:
            end_transaction(log, 2, commit=number % 8 == 7)
    return log


def state(log: Log) -> dict[str, object]:
    """Everything that a client can see of a log."""
    return {
        "offsets": (log.start_offset, log.end_offset),
        "batches": read_all(log),
        "epochs": log.epochs.entries,
        "producers": log.producers.encode_snapshot(),
        "unstable": log.producers.first_undecided_offset,
        "aborted": log.aborted_transactions(0, log.end_offset),
        "newest": log.max_timestamp_offset(),
        "indexes": [
            [(index.pair(n)) for n in range(len(index))]
            for segment in log.segments
            for index in (segment.index, segment.time_index)
        ],
    }


def last_log_file(disk: SimulatedDisk) -> str:
    return max(path for path in disk.files() if path.endswith(".log"))


def test_after_a_clean_stop_the_state_is_the_same_and_no_log_file_is_scanned() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk, segment_bytes=100_000)
    log.close()
    size_bytes = log.size_bytes
    # Nothing before the last index entry is read, so it may as well be missing.
    tail = log.segments[-1].last_indexed()
    disk.file(FIRST_LOG).data[:tail] = bytes(tail)
    assert tail > size_bytes * 0.9
    again = reopened(disk, clean=True, config=CONFIG)
    assert again.end_offset == log.end_offset
    assert again.producers.encode_snapshot() == log.producers.encode_snapshot()


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_changes_nothing(clean: bool) -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    before = state(log)
    log.close()
    again = reopened(disk, clean=clean, config=CONFIG)
    found = state(again)
    # A closed segment's time index has one more entry; so has the one that recovery closed.
    del before["indexes"], found["indexes"]
    assert found == before


def test_a_killed_process_loses_nothing_and_duplicates_are_still_recognized() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    again = reopened(disk, config=CONFIG)
    assert values(read_all(again)) == values(read_all(log))
    assert append(again, from_producer(1, 19), epoch=1).duplicate
    assert not append(again, from_producer(1, 20), epoch=1).duplicate


def test_recovery_is_idempotent() -> None:
    disk = SimulatedDisk()
    busy_log(disk)
    first = state(reopened(disk, config=CONFIG))
    files = disk.files()
    assert state(reopened(disk, config=CONFIG)) == first
    assert disk.files() == files


def test_every_side_file_is_rebuilt_with_the_same_bytes() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    before = disk.files()
    for path in before:
        if not path.endswith((".log", "checkpoint")):
            disk.unlink(path)
    reopened(disk, config=CONFIG).close()
    assert disk.files() == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex", "checkpoint"])
def test_after_a_clean_stop_a_missing_side_file_is_rebuilt(suffix: str) -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    before = state(log)
    if suffix in (".txnindex", "checkpoint"):
        # A missing file of these kinds is like one that never existed: the log is only scanned
        # if something else is missing.
        for path in disk.files():
            if path.endswith((".index", ".snapshot")):
                disk.unlink(path)
    for path in disk.files():
        if path.endswith(suffix):
            disk.unlink(path)
    assert state(reopened(disk, clean=True, config=CONFIG)) == before


@pytest.mark.parametrize("damage", [b"", b"garbage", bytes(200)])
def test_a_corrupt_producer_snapshot_is_skipped(damage: bytes) -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    disk.file(max(path for path in disk.files() if path.endswith(".snapshot"))).data[:] = damage
    again = reopened(disk, clean=True, config=CONFIG)
    assert again.producers.encode_snapshot() == log.producers.encode_snapshot()


def test_an_index_of_an_impossible_size_is_rebuilt() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    disk.file(f"{DIRECTORY}/{0:020d}.index").data += b"xyz"
    before = state(log)
    assert state(reopened(disk, clean=True, config=CONFIG)) == before


def test_a_log_cut_at_every_byte_keeps_exactly_the_complete_batches() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, index_interval_bytes=100)
    for number in range(6):
        append(log, from_producer(1, number))
    end_transaction(log, 2, commit=False)
    append(log, batch(b"a", b"b"))
    stored = read_all(log)
    whole = b"".join(stored)
    for length in range(len(whole) + 1):
        cut = disk.copy()
        del cut.file(FIRST_LOG).data[length:]
        again = reopened(cut, config=CONFIG)
        kept = read_all(again)
        assert kept == stored[: len(kept)]
        size_bytes = sum(map(len, kept))
        assert size_bytes <= length < size_bytes + len([*stored, bytes(999)][len(kept)])
        assert again.end_offset == (headers(kept[-1])[0].end_offset if kept else 0)
        first = state(again)
        assert state(reopened(cut, config=CONFIG)) == first


@pytest.mark.parametrize("tail", [bytes(1000), bytes(10), b"\x02" * 500, b"\xff" * 61])
def test_a_tail_that_is_no_batch_is_truncated(tail: bytes) -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    before = state(log)
    disk.file(last_log_file(disk)).data += tail
    again = reopened(disk, config=CONFIG)
    assert state(again)["batches"] == before["batches"]
    assert disk.file(last_log_file(disk)).data == again.segments[-1].file.pread(1 << 20, 0)


def test_random_tails_are_truncated() -> None:
    random = Random(5)
    for _ in range(100):
        disk = SimulatedDisk()
        log = new_log(disk)
        append(log, batch())
        disk.file(FIRST_LOG).data += random.randbytes(random.randrange(1, 3000))
        assert reopened(disk).end_offset == 1


def test_a_bad_batch_before_valid_ones_takes_the_log_offline_without_truncation() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    for number in range(3):
        append(log, batch(b"%d" % number * 20))
    size_bytes = len(batch(b"0" * 20))
    disk.file(FIRST_LOG).data[size_bytes + 70] ^= 1
    before = bytes(disk.file(FIRST_LOG).data)
    with pytest.raises(CorruptLog) as raised:
        reopened(disk)
    assert raised.value.position == size_bytes
    assert f"offset 2 follows at {2 * size_bytes}" in str(raised.value)
    assert disk.file(FIRST_LOG).data == before


def test_a_bad_batch_before_a_valid_segment_takes_the_log_offline() -> None:
    disk = SimulatedDisk()
    busy_log(disk)
    del disk.file(FIRST_LOG).data[-1:]
    with pytest.raises(CorruptLog, match="follows at 0 in"):
        reopened(disk, config=CONFIG)


def test_records_missing_between_segments_take_the_log_offline() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    last_bytes = headers(log.segments[0].file.pread(1 << 20, 0))[-1].size_bytes
    del disk.file(FIRST_LOG).data[-last_bytes:]
    with pytest.raises(CorruptLog, match="are missing"):
        reopened(disk, config=CONFIG)


@pytest.mark.long
def test_every_bit_flip_is_noticed_or_harmless() -> None:
    """10,000 flips: what is read afterwards is a prefix of what was written, or the log is offline.

    The base offset and the leader epoch of a batch are not under its checksum, so a flip there
    can pass when the offsets still grow; nothing else may.
    """
    random = Random(6)
    disk = SimulatedDisk()
    log = new_log(disk)
    for number in range(8):
        append(log, from_producer(1, number))
    stored = values(read_all(log))
    size_bytes = len(disk.file(FIRST_LOG).data)
    original = bytes(disk.file(FIRST_LOG).data)
    offline = 0
    copy = disk.copy()
    for _ in range(10_000):
        bit = random.randrange(size_bytes * 8)
        data = bytearray(original)
        data[bit // 8] ^= 1 << bit % 8
        copy.file(FIRST_LOG).data[:] = data
        try:
            again = reopened(copy)
        except CorruptLog:
            offline += 1
            continue
        kept = values(read_all(again))
        assert kept == stored[: len(kept)], bit
    assert offline > 7000


def test_only_records_above_the_recovery_point_are_checked() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    for number in range(10):
        append(log, batch(b"%d" % number))
    size_bytes = len(batch(b"0"))
    disk.file(FIRST_LOG).data[4 * size_bytes - 3] ^= 1
    assert reopened(disk, recovery_point=4).end_offset == 10
    with pytest.raises(CorruptLog):
        reopened(disk, recovery_point=3)


def test_segments_below_the_recovery_point_are_not_touched() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.flush()
    recovery_point = log.recovery_point
    for segment in log.segments[:-1]:
        path = segment.file.path
        disk.file(path).data[70:80] = b"0123456789"
    again = reopened(disk, config=CONFIG, recovery_point=recovery_point)
    assert again.end_offset == log.end_offset


def test_the_producers_below_a_gap_are_restored_without_the_segments_after_it() -> None:
    """Compaction leaves gaps between segments; those still to be scanned may hold anything."""
    disk = SimulatedDisk()
    log = new_log(disk, cleanup_policy=("compact",), segment_bytes=200)
    config = log.config
    for base_offset in (0, 10, 20):
        log.append_as_follower(b"".join(with_prefix(batch(b"x" * 80), base_offset, 0)), 0)
    log.flush()
    # So far away that its segment cannot begin where the log ends.
    far = LARGEST_RELATIVE_OFFSET + 30
    log.append_as_follower(b"".join(with_prefix(batch(b"x" * 80), far, 0)), 0)
    recovery_point = log.recovery_point
    assert len(log.segments) == 4 and recovery_point == 21
    assert log.segments.active.base_offset == far
    garbage = disk.file(last_log_file(disk))
    garbage.data[:] = bytes(range(1, 100))
    again = reopened(disk, config=config, recovery_point=recovery_point)
    assert (again.start_offset, again.end_offset) == (0, far)
    assert [bool(segment.size_bytes) for segment in again.segments] == [True, True, True, False]


@pytest.mark.parametrize("left", [b"", b"0\n3\n0 0\n2 4", b"0\n1\n5 9\n"])
def test_epochs_lost_from_the_checkpoint_in_a_power_cut_are_restored(left: bytes) -> None:
    """All epochs, not only those of scanned segments, are needed to find divergences."""
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=200)
    for epoch in (0, 0, 2, 2, 2, 5, 5):
        append(log, batch(b"x" * 50), epoch=epoch)
    log.flush()
    entries = log.epochs.entries
    assert [entry.epoch for entry in entries] == [0, 2, 5] and len(log.segments) > 3
    disk.write(f"{DIRECTORY}/leader-epoch-checkpoint", left)
    again = reopened(disk, recovery_point=log.end_offset)
    expected = entries if b"9" not in left else [*entries[:2], EpochEntry(5, 5)]
    assert again.epochs.entries == expected


def test_a_log_that_ends_below_its_start_becomes_empty_at_the_start() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, batch())
    again = reopened(disk, start_offset=50)
    assert (again.start_offset, again.end_offset, again.size_bytes) == (50, 50, 0)
    assert append(again, batch()).base_offset == 50
    assert log.end_offset == 1


def test_an_empty_directory_becomes_an_empty_log() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    log = reopened(disk, clean=True)
    append(log, batch())
    assert log.end_offset == 1


def test_open_transactions_are_still_open_after_a_crash() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, batch())
    append(log, from_producer(2, 0, transactional=True))
    append(log, batch())
    again = reopened(disk)
    assert again.first_unstable_offset == 1
    end_transaction(again, 2, commit=False)
    assert again.aborted_transactions(0, 4) == [AbortedTransaction(2, 1, 3, 4)]


def test_indexes_padded_with_zeros_as_kafka_leaves_them_are_rebuilt() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    before = state(log)
    for suffix, size_bytes in ((".index", 10_485_760), (".timeindex", 10_485_756)):
        path = log.segments[-1].path(suffix)
        data = disk.file(path).data
        data += bytes(size_bytes - len(data))
    assert state(reopened(disk, config=CONFIG)) == before


def test_a_compaction_with_swap_files_is_completed() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    covered = log.segments[0].base_offset, log.segments[1].base_offset
    both = b"".join(bytes(disk.file(log.segments[n].file.path).data) for n in (0, 1))
    before = read_all(log)
    disk.write(FIRST_LOG + ".swap", both)
    disk.rename(log.segments[1].file.path, log.segments[1].file.path + ".deleted")
    again = reopened(disk, config=CONFIG)
    assert covered[1] not in [segment.base_offset for segment in again.segments]
    assert read_all(again) == before


def test_a_compaction_that_was_not_complete_is_undone() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    before = state(log)
    disk.write(FIRST_LOG + ".cleaned", b"half")
    disk.write(f"{DIRECTORY}/{0:020d}.index.cleaned", b"")
    assert read_all(reopened(disk, config=CONFIG)) == before["batches"]
    assert not any("cleaned" in path for path in disk.files())


def test_an_index_without_a_log_is_removed() -> None:
    disk = SimulatedDisk()
    busy_log(disk)
    orphan = f"{DIRECTORY}/{999:020d}.index"
    disk.write(orphan, bytes(8))
    reopened(disk, config=CONFIG)
    assert not disk.exists(orphan)


def test_any_failing_operation_of_recovery_leaves_a_log_that_the_next_one_opens() -> None:
    original = SimulatedDisk()
    log = busy_log(original)
    before = read_all(log)
    original.file(last_log_file(original)).data += b"torn"
    quiet = original.copy()
    reopened(quiet, config=CONFIG)
    for number in range(quiet.operations):
        disk = original.copy()
        disk.failures[number] = errno.EIO
        with suppress(OSError):
            reopened(disk, config=CONFIG)
        disk.failures.clear()
        assert read_all(reopened(disk, config=CONFIG)) == before


def test_the_newest_producer_snapshot_and_those_of_segments_are_kept() -> None:
    disk = SimulatedDisk()
    log = busy_log(disk)
    for offset in (3, 5, 7, log.end_offset + 5):
        disk.write(f"{DIRECTORY}/{offset:020d}.snapshot", log.producers.encode_snapshot())
    log.close()
    reopened(disk, clean=True, config=CONFIG)
    left = {path for path in disk.files() if path.endswith(".snapshot")}
    bases = [segment.base_offset for segment in log.segments if segment.base_offset]
    assert left == {f"{DIRECTORY}/{n:020d}.snapshot" for n in [*bases, log.end_offset]}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_padded_with_zeros_as_kafka_preallocates_it_is_cut_to_its_records(
    is_clean: bool,
) -> None:
    """With log.preallocate, Kafka's active segment is as large as log.segment.bytes."""
    disk = SimulatedDisk()
    log = busy_log(disk)
    log.close()
    before = state(log)
    path = log.segments[-1].path(".log")
    data = disk.file(path).data
    size_bytes = len(data)
    data += bytes((8 << 20) - size_bytes)
    again = reopened(disk, config=CONFIG, clean=is_clean)
    assert state(again) == before
    assert len(disk.file(path).data) == size_bytes
    append(again, batch())
    assert again.end_offset == log.end_offset + 1
