"""Crashes at every operation of a cleaning: readers must see no difference."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import cache

import pytest

from tests.log.batches import NOW_MS, append, end_transaction, from_producer, new_log, reopened
from tests.log.cleaning import clean, fold
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from wirekafka.codec.record import Record, encode_batch
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.log import Log

CONFIG = TopicConfig(cleanup_policy=("compact",), segment_bytes=500, index_interval_bytes=150)


@cache
def history() -> SimulatedDisk:
    """A synced log of seven segments, with aborted and committed transactions and tombstones."""
    disk = SimulatedDisk()
    log = new_log(disk, cleanup_policy=("compact",), segment_bytes=500, index_interval_bytes=150)
    for number in range(6):
        for key in range(3):
            value = None if (number + key) % 5 == 0 else b"value%d" % number
            append(log, encode_batch([Record(timestamp=NOW_MS, key=b"%d" % key, value=value)]))
        append(log, from_producer(2, number, transactional=True))
        end_transaction(log, 2, commit=number % 3 > 0)
    log.producers.forget_stable(log.end_offset)
    log.roll(NOW_MS)
    log.close()
    log.flush()
    return disk


def opened(seed: int) -> tuple[SimulatedDisk, Log]:
    """A copy of that log, in service."""
    disk = history().after_crash(Outcome.ALL_KEPT, seed)
    log = reopened(disk, config=CONFIG, clean=True)
    log.producers.forget_stable(log.end_offset)
    return disk, log


def cleaned_twice(disk: SimulatedDisk, log: Log) -> None:
    """Two rounds; the second one merges segments and drops tombstones."""
    first = clean(disk, log)
    log.config = TopicConfig(cleanup_policy=("compact",), segment_bytes=5000)
    append(log, encode_batch([Record(timestamp=NOW_MS, key=b"0", value=b"late")]))
    log.roll(NOW_MS)
    log.flush()
    clean(disk, log, first, NOW_MS + 86_400_001)
    log.delete_retired(NOW_MS + 60_000)


def operations() -> range:
    disk, log = opened(0)
    begun = disk.operations
    cleaned_twice(disk, log)
    return range(begun, disk.operations)


@pytest.mark.long
@pytest.mark.parametrize("outcome", Outcome, ids=lambda outcome: outcome.name.lower())
def test_a_crash_during_cleaning_changes_nothing_for_readers(outcome: Outcome) -> None:
    late = with_a_late_record()
    step = 1 if outcome is Outcome.ALL_KEPT else 3
    for number in operations()[list(Outcome).index(outcome) % step :: step]:
        disk, log = opened(number)
        before, producers = fold(log), log.producers.encode_snapshot()
        disk.crash_at = number
        with pytest.raises(Crash):
            cleaned_twice(disk, log)
        left = disk.after_crash(outcome, number)
        where = f"operation {number}: {disk.log[-1]}"
        for is_clean in (False, False, True):
            again = reopened(left, config=CONFIG, clean=is_clean, recovery_point=30)
            assert fold(again) in (before, late), where
            assert again.producers.encode_snapshot() == producers, where
            again.close()
            again.flush()
        assert not [name for name in left.files() if name.endswith((".cleaned", ".swap"))], where
        clean(left, again)
        assert fold(again) in (before, late), where


def with_a_late_record() -> object:
    _, log = opened(0)
    append(log, encode_batch([Record(timestamp=NOW_MS, key=b"0", value=b"late")]))
    return fold(log)


@pytest.mark.long
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_disk_error_during_cleaning_loses_nothing(code: int) -> None:
    late = with_a_late_record()
    for number in operations()[code % 2 :: 2]:
        disk, log = opened(number)
        before = fold(log)
        disk.failures = {number: code}
        with suppress(OSError, KafkaError):
            cleaned_twice(disk, log)
        if log.has_failed:  # During the swap: the log cannot be read before a restart.
            with pytest.raises(KafkaError):
                append(log, encode_batch([Record(timestamp=NOW_MS, key=b"0", value=b"refused")]))
        else:
            assert fold(log) in (before, late), f"operation {number}: {disk.log[-1]}"
        disk.failures.clear()
        again = reopened(disk, config=CONFIG, recovery_point=30)
        assert fold(again) in (before, late), f"operation {number}: {disk.log[-1]}"
