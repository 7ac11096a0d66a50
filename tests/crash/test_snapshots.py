"""Power is cut, or the command killed, at any operation of a snapshot, branch or restore."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from functools import cache, partial
from random import Random
from typing import NamedTuple

import pytest

from tests.crash.disk import SitedDisk
from tests.crash.examination import Case, Examination
from tests.crash.life import Life, Node
from tests.crash.observed import Observed
from tests.manual_clock import ManualClock
from tests.repetitions import repetitions
from tests.simulation.disk import Crash, DirectoryNode, Outcome, SimulatedDisk, SimulatedFile
from tests.snapshot.taken import noted
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.server.snapshots.branch import _amend
from wirekafka.snapshot.archive import Archive
from wirekafka.snapshot.creation import Creation, SnapshotOptions
from wirekafka.snapshot.instant import Instant
from wirekafka.snapshot.manifest import UnusableSnapshot
from wirekafka.testing.memory_tier import MemoryTier

CUTS = repetitions("WIREKAFKA_SNAPSHOT_CUTS", usual=6, thorough=2_000)
"""How many operations are tried for each kind of target; the last ones always."""
LAST = 5
COPY = "/copy"


class Moment(NamedTuple):
    """A node that runs: its disk, its instant, and what clients observed."""

    root: DirectoryNode
    instant: Instant
    observed: Observed


@cache
def moment(syncs: bool) -> Moment:
    disk = SitedDisk()
    life = Life(disk, 0, syncs=syncs)
    life.run()
    return Moment(disk.root, noted(life.node.broker), life.observed)


def options(kind: str, disk: SimulatedDisk) -> SnapshotOptions:
    if kind == "snapshot":
        return SnapshotOptions()
    return SnapshotOptions(cluster_id="branch", is_described=False, amended=partial(_amend, disk))


class Readable:
    """A simulated disk as whoever sends its files reads it."""

    def __init__(self, disk: SimulatedDisk):
        self.read, self.list_directory = disk.read, disk.list_directory
        self._disk = disk

    def open_to_read(self, path: str) -> SimulatedFile:
        file = self._disk.open(path, len(self._disk.read(path)))
        file.identity = 0, 0  # type: ignore[attr-defined]
        return file


@cache
def archive(syncs: bool) -> Archive:
    """A store with the snapshot."""
    disk = attempt("snapshot", moment(syncs))
    kept = Archive(MemoryTier())
    kept.send(Readable(disk), COPY, "kept")  # type: ignore[arg-type]
    return kept


def attempt(kind: str, at: Moment, crash_at: int = -1, *, syncs: bool = True) -> SitedDisk:
    """The disk after the command, which is cut off before an operation."""
    disk = SitedDisk()
    disk.root = deepcopy(at.root)
    kept = archive(syncs) if kind == "restore" else None
    disk.crash_at = crash_at
    with suppress(Crash):
        if kept is not None:
            kept.restore(kept.find("kept"), disk, COPY)
        else:
            Creation(disk, COPY, options(kind, disk)).run(at.instant)
    return disk


def examine(left: SimulatedDisk, at: Moment, outcome: Outcome, *, syncs: bool) -> None:
    case = Case(disk=left, observed=deepcopy(at.observed), outcome=outcome, syncs=syncs, seed=0)
    Examination(case).run()


@pytest.mark.parametrize("syncs", [True, False], ids=["fsync", "page-cache"])
@pytest.mark.parametrize("kind", ["snapshot", "branch", "restore"])
def test_the_source_stays_whole_and_the_target_is_whole_or_recognised(
    kind: str, syncs: bool
) -> None:
    at = moment(syncs)
    operations = attempt(kind, at, syncs=syncs).operations
    random = Random(f"{kind} {syncs}")
    chosen = random.sample(range(operations), min(CUTS, operations))
    for number in sorted({*chosen, *range(operations - LAST, operations + 1)}):
        disk = attempt(kind, at, number, syncs=syncs)
        outcome = random.choice(list(Outcome))
        try:
            check(disk.after_crash(outcome, number), at, outcome, syncs)
        except BaseException:
            print(f"operation {number} of {operations}, {disk.log[-1]}, {outcome.name}")
            raise


def check(left: SimulatedDisk, at: Moment, outcome: Outcome, syncs: bool) -> None:
    source = left.copy()
    incomplete = COPY + ".incomplete"
    if left.exists(COPY):
        examine(in_place_of_data(left, COPY), at, outcome, syncs=True)
    elif left.exists(incomplete) and left.exists(f"{incomplete}/meta.properties"):
        place = in_place_of_data(left, incomplete)
        try:
            Node(place.copy(), ManualClock(), 0, syncs=True).stop()
        except UnusableDirectory as error:
            assert "incomplete snapshot" in str(error)
        else:
            examine(place, at, outcome, syncs=True)
    if not source.exists(COPY):
        Creation(source, COPY, SnapshotOptions()).check()
    else:
        with pytest.raises(UnusableSnapshot):
            Creation(source, COPY, SnapshotOptions()).check()
    examine(source, at, outcome, syncs=syncs)


def in_place_of_data(left: SimulatedDisk, path: str) -> SimulatedDisk:
    disk = left.copy()
    disk.rename("/data", "/origin")
    disk.rename(path, "/data")
    return disk
