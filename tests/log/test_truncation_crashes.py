"""Crashes at every operation of a truncation, and after it: what is left is a prefix of the log."""

from __future__ import annotations

import pytest

from tests.log.batches import NOW_MS, append, from_producer, new_log, reopened
from tests.log.cleaning import batches_left
from tests.log.recovered import assert_no_hole
from tests.simulation.disk import Crash, Outcome, SimulatedDisk
from wirekafka.codec.batch import read_header
from wirekafka.log.log import Log

_RECORDS = 30


def written() -> tuple[SimulatedDisk, Log]:
    """A synced log of several segments."""
    disk = SimulatedDisk()
    log = new_log(disk, segment_bytes=500)
    for number in range(_RECORDS):
        append(log, from_producer(1, number))
    log.flush()
    assert len(log.segments) > 4
    return disk, log


def truncate(log: Log, offset: int, end_offset: int) -> None:
    """Truncate to `offset`, and to nothing but an end offset if that is another."""
    if end_offset == offset:
        log.truncate_to(offset, NOW_MS)
    else:
        log.truncate_fully_at(end_offset, NOW_MS)


@pytest.mark.parametrize(
    ("offset", "end_offset"), [(0, 0), (1, 1), (12, 12), (_RECORDS - 1, _RECORDS - 1), (0, 100)]
)
def test_a_crash_during_a_truncation_leaves_a_prefix(offset: int, end_offset: int) -> None:
    disk, log = written()
    first = disk.operations
    truncate(log, offset, end_offset)
    for number in range(first, disk.operations):
        disk, log = written()
        disk.crash_at = number
        with pytest.raises(Crash):
            truncate(log, offset, end_offset)
        left = disk.after_crash(Outcome.ALL_KEPT, number)
        again = reopened(left)
        found = [read_header(batch) for batch in batches_left(again)]
        where = f"operation {number}: {disk.log[-1]}"
        assert_no_hole(again, found)
        if again.end_offset == end_offset and not found:
            continue  # It was complete, but for the old files.
        assert again.start_offset == 0, where
        assert offset <= again.end_offset <= _RECORDS, where
        again.truncate_to(offset, NOW_MS)
        assert again.end_offset == offset, where


@pytest.mark.parametrize("offset", [1, 12, _RECORDS - 1])
def test_a_power_failure_does_not_bring_truncated_records_back(offset: int) -> None:
    for outcome in Outcome:
        disk, log = written()
        disk.fsync_directory("/")
        log.truncate_to(offset, NOW_MS)
        again = reopened(disk.after_crash(outcome, 0))
        assert (again.start_offset, again.end_offset) == (0, offset), outcome
