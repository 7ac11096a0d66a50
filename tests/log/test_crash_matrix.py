"""Crashes at every operation of a workload, with every outcome for unsynced writes.

After each crash the directory is opened again, and compared with the acknowledged records. A fresh
scan of the log files is the oracle for everything beside them.
`tests/crash` examines a whole broker, at some moments of each kind; here it is a single log with
several leader epochs, at every operation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from tests.log.batches import NOW_MS, append, end_transaction, from_producer, read_all, values
from tests.log.recovered import assert_no_hole, described
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from wirekafka.codec.batch import read_header
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import DirectoryIdentity, LogDirectory, NewLog
from wirekafka.log.log import Log

PATH = "/data"
KEY = "topic", 0
CONFIG = TopicConfig(segment_bytes=700, index_interval_bytes=150, retention_bytes=3000)
IDENTITY = DirectoryIdentity("cluster", 1, bytes(range(16)))

OFFLINE_ALLOWED = {
    Outcome.PREFIX,
    Outcome.SECTORS,
    Outcome.ZERO_TAIL,
    Outcome.GARBAGE_TAIL,
    Outcome.RENAMED_EMPTY,
    Outcome.UNSYNCED_LOST,
}
"""If a file lost its end and a later one did not, the log must not be served as complete."""


@dataclass
class Observed:
    """What clients observed before the crash."""

    batches: dict[int, bytes] = field(default_factory=dict)
    """The acknowledged batches by offset, without the rewritten prefix."""
    acknowledged_end: int = 0
    """Everything below was acknowledged."""
    synced_end: int = 0
    """Everything below was synced."""
    started: int = 0
    """The newest start offset that may have been reached."""
    sequence: int = 0
    transactional_sequence: int = 0


def opened(disk: SimulatedDisk) -> LogDirectory:
    directory = LogDirectory(disk, PATH, threads=1)
    directory.claim(IDENTITY)
    directory.load(lambda _: CONFIG, NOW_MS)
    return directory


def live(disk: SimulatedDisk, observed: Observed) -> None:
    """A workload: creation, appends, transactions, rolls, syncs, deletion, a stop and a start."""
    directory = opened(disk)
    directory.create(
        NewLog(topic="topic", topic_id=b"0123456789abcdef", partition=0, config=CONFIG), NOW_MS
    )
    log = directory.logs[KEY]
    for round_ in range(6):
        write(log, observed, 4, epoch=round_ // 2)
        if round_ == 1:
            sync(directory, log, observed)
        if round_ == 3:
            observed.started = log.start_offset + 7
            log.advance_start(observed.started)
            directory.checkpoint({KEY: log.end_offset})
    observed.started = log.end_offset
    log.delete_old_segments(NOW_MS)
    observed.started = log.start_offset
    log.delete_retired(NOW_MS + 60_000)
    sync(directory, log, observed)
    write(log, observed, 3, epoch=3)
    directory.close_cleanly({KEY: log.end_offset}, 1)
    observed.synced_end = log.end_offset
    disk.locks.clear()
    directory = opened(disk)
    log = directory.logs[KEY]
    write(log, observed, 3, epoch=4)
    directory.close_cleanly({KEY: log.end_offset}, 2)
    observed.synced_end = log.end_offset


def write(log: Log, observed: Observed, count: int, epoch: int) -> None:
    for _ in range(count):
        batch = from_producer(1, observed.sequence)
        observed.batches[append(log, batch, epoch=epoch).base_offset] = batch[16:]
        observed.acknowledged_end = log.end_offset
        observed.sequence += 1
    batch = from_producer(2, observed.transactional_sequence, transactional=True)
    observed.batches[append(log, batch, epoch=epoch).base_offset] = batch[16:]
    observed.acknowledged_end = log.end_offset
    observed.transactional_sequence += 1
    end_transaction(log, 2, commit=observed.transactional_sequence % 2 == 0)
    observed.acknowledged_end = log.end_offset


def sync(directory: LogDirectory, log: Log, observed: Observed) -> None:
    directory.flush()
    observed.synced_end = log.end_offset
    directory.checkpoint({KEY: log.end_offset})


def operations() -> int:
    disk = SimulatedDisk()
    live(disk, Observed())
    return disk.operations


@pytest.mark.long
@pytest.mark.parametrize("outcome", Outcome, ids=lambda outcome: outcome.name.lower())
def test_invariants_hold_after_a_crash_at_any_operation(outcome: Outcome) -> None:
    offline = 0
    for number in range(operations()):
        for seed in (0,) if outcome in (Outcome.ALL_KEPT, Outcome.UNSYNCED_LOST) else (0, 1):
            observed = Observed()
            disk = SimulatedDisk(seed)
            disk.crash_at = number
            with pytest.raises(Crash):
                live(disk, observed)
            left = disk.after_crash(outcome, seed)
            offline += not holds(left, outcome, observed, f"operation {number}: {disk.log[-1]}")
    if outcome not in OFFLINE_ALLOWED:
        assert offline == 0


def holds(disk: SimulatedDisk, outcome: Outcome, observed: Observed, where: str) -> bool:
    """Check the log after a restart; returns whether it is in service."""
    directory = opened(disk)
    if KEY in directory.offline:
        assert outcome in OFFLINE_ALLOWED, (where, directory.offline)
        return False
    if KEY not in directory.logs:
        assert observed.synced_end == 0 and (
            not observed.batches or outcome is not Outcome.ALL_KEPT
        ), where
        return True
    log = directory.logs[KEY]
    kept_end = observed.acknowledged_end if outcome is Outcome.ALL_KEPT else observed.synced_end
    assert log.end_offset >= kept_end, (where, log.end_offset, kept_end)
    assert log.start_offset <= max(observed.started, 0), where
    batches = read_all(log)
    headers = [read_header(batch) for batch in batches]
    found = {header.base_offset: batch for header, batch in zip(headers, batches, strict=True)}
    for offset, batch in observed.batches.items():
        if log.start_offset <= offset < log.end_offset:
            assert found[offset][16:] == batch, (where, offset)
    assert_no_hole(log, headers)
    again_equal(disk, directory, log, where)
    return True


def again_equal(disk: SimulatedDisk, directory: LogDirectory, log: Log, where: str) -> None:
    """Opening once more changes nothing, and agrees with a scan of the log files alone."""
    directory.release()
    disk.locks.clear()
    again = opened(disk).logs[KEY]
    assert described(again) == described(log), where
    if log.segments[0].base_offset:
        return  # The producers' first records were deleted, so a scan cannot restore their states.
    disk.locks.clear()
    for path in disk.files():
        if path.endswith((".index", ".timeindex", ".txnindex", ".snapshot")):
            disk.unlink(path)
    with suppress(FileNotFoundError):
        disk.unlink(f"{PATH}/recovery-point-offset-checkpoint")
    scanned = opened(disk).logs[KEY]
    assert described(scanned) == described(log), where


def test_a_retry_after_any_crash_of_the_process_is_a_duplicate() -> None:
    for number in range(0, operations(), 3):
        observed = Observed()
        disk = SimulatedDisk(number)
        disk.crash_at = number
        with pytest.raises(Crash):
            live(disk, observed)
        directory = opened(disk.after_crash(Outcome.ALL_KEPT, 0))
        log = directory.logs.get(KEY)
        if log is None or not observed.sequence:
            continue
        assert append(log, from_producer(1, observed.sequence - 1), epoch=9).duplicate
        # The next batch may be on the disk unacknowledged; in both cases it is stored once.
        with suppress(KafkaError):
            append(log, from_producer(1, observed.sequence), epoch=9)
        bodies = values(read_all(log))
        assert bodies.count(from_producer(1, observed.sequence)[16:]) == 1
