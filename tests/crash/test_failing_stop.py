"""A stop whose last writes fail reports the error, releases its locks, and a start recovers."""

from __future__ import annotations

import errno
import logging

import pytest

from tests.crash.disk import SitedDisk
from tests.crash.life import Life, Node
from tests.in_process import now
from tests.manual_clock import ManualClock
from tests.simulation.disk import Outcome


def stopping(failing: int) -> tuple[SitedDisk, int]:
    """A disk after a stop with one failing operation, and the number of operations."""
    disk = SitedDisk()
    node = Node(disk, ManualClock(), 0, syncs=False)
    before = disk.operations
    disk.failures = {before + failing: errno.EIO}
    node.stop()
    return disk, disk.operations - before


def operations() -> int:
    return stopping(1 << 30)[1]


@pytest.mark.parametrize("failing", range(operations()))
def test_a_stop_completes_after_any_failing_operation(
    failing: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk, _ = stopping(failing)
    assert not disk.locks
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    # At most: of the directory, the metadata log, its controller, and the shutdown's record.
    assert 1 <= len(errors) <= 4, caplog.text
    assert all("Input/output error" in each.getMessage() and not each.exc_info for each in errors)
    disk.failures.clear()
    Node(disk, ManualClock(), 0, syncs=False)


def test_the_log_after_a_failed_stop_is_complete() -> None:
    disk = SitedDisk()
    life = Life(disk, 0, syncs=False)
    life.run()
    ends = {place: sent[-1].offset + 1 for place, sent in life.observed.sent.items()}
    broker = life.node.broker
    disk.failures = {disk.operations: errno.EIO}
    now(broker.stop())
    disk.failures.clear()
    again = Node(disk.after_crash(Outcome.ALL_KEPT, 0), ManualClock(), 0, syncs=False).broker
    for place, end_offset in ends.items():
        assert again.partitions[place].log.end_offset >= end_offset
