"""One operation of the disk fails, the broker continues if it can, and then power is cut."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from traceback import walk_tb

import pytest

import wirekafka
from tests.crash.disk import SitedDisk
from tests.crash.examination import Case, Examination
from tests.crash.life import Life
from tests.repetitions import repetitions
from tests.simulation.disk import Outcome
from wirekafka.errors import KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory

STEP = repetitions("WIREKAFKA_FAILING_STEP", usual=96, thorough=4)
"""The distance between tested operations; 1 for all of them."""
SHARDS = 4
_REPORTED = AssertionError, KafkaError, KeyError, OSError, UnusableDirectory
"""A client received an error, or found no partition, and stops."""
_BROKER = Path(wirekafka.__file__).parent


@contextmanager
def _ending_when_refused() -> Iterator[None]:
    try:
        yield
    except _REPORTED as error:
        *_, (frame, _) = walk_tb(error.__traceback__)
        # The broker must keep its own invariants in spite of failures.
        if isinstance(error, AssertionError | KeyError) and Path(
            frame.f_code.co_filename
        ).is_relative_to(_BROKER):
            raise


@cache
def operations() -> int:
    disk = SitedDisk()
    Life(disk, 0, syncs=True).run()
    return disk.operations


async def _lived(life: Life) -> None:
    """Run the workload where requests can begin to wait, as for a repeated sync: it ends then."""
    life.run()


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_acknowledged_records_are_kept_in_spite_of_a_failing_operation(
    code: int, shard: int
) -> None:
    first = shard * STEP + (0 if code == errno.EIO else STEP // 2)
    for number in range(first, operations(), STEP * SHARDS):
        disk = SitedDisk()
        disk.failures = {number: code}
        life = Life(disk, 0, syncs=True)
        with _ending_when_refused():
            asyncio.run(_lived(life))
        for outcome in (Outcome.ALL_KEPT, Outcome.UNSYNCED_LOST):
            left = disk.after_crash(outcome, number)
            try:
                Examination(
                    Case(disk=left, observed=life.observed, outcome=outcome, syncs=True, seed=0)
                ).run()
            except BaseException:
                print(f"operation {number}, {disk.log[number]}, {outcome.name}")
                raise
