"""The invariants after a crash at each site, with each outcome for unsynced writes."""

from __future__ import annotations

from functools import cache, lru_cache
from random import Random

import pytest

from tests.crash.disk import SitedDisk
from tests.crash.examination import Case, Examination
from tests.crash.life import Life, Node
from tests.crash.observed import Observed
from tests.crash.sites import SITES, Site
from tests.manual_clock import ManualClock
from tests.repetitions import repetitions, swept
from tests.simulation.disk import Crash, Outcome
from wirekafka.log.recovery import _Recovery
from wirekafka.replication.partition.partition import Partition

SEEDS = range(repetitions("WIREKAFKA_CRASH_SEEDS", usual=1, thorough=5))

CASES = swept(
    (
        pytest.param(
            site,
            outcome,
            syncs,
            id=f"{site.name}-{outcome.name.lower()}-{'fsync' if syncs else 'page-cache'}",
        )
        for site in SITES
        for outcome in Outcome
        for syncs in (True, False)
    ),
    every=3,
)
"""Each site with each outcome; `make test` tries a third of the outcomes, others at each site."""


@cache
def operations(seed: int, syncs: bool) -> list[str]:
    """The operations of a workload without a crash."""
    disk = SitedDisk(seed)
    Life(disk, seed, syncs=syncs).run()
    return disk.log


@lru_cache(maxsize=len(SEEDS) * 2)
def crashed(site: Site, seed: int, syncs: bool) -> tuple[SitedDisk, Observed]:
    """The disk after a crash at one of the operations that a site matches."""
    moments = site.moments(operations(seed, syncs))
    assert moments, f"the broker never comes to: {site.name}"
    return ended(Random(f"{site.name} {seed}").choice(moments), seed, syncs, site.is_after)


def ended(number: int, seed: int, syncs: bool, is_after: bool) -> tuple[SitedDisk, Observed]:
    disk = SitedDisk(seed)
    if is_after:
        disk.crash_after = number
    else:
        disk.crash_at = number
    life = Life(disk, seed, syncs=syncs)
    with pytest.raises(Crash):
        life.run()
    return disk, life.observed


@pytest.mark.parametrize(("site", "outcome", "syncs"), CASES)
def test_invariants_hold_after_a_crash(site: Site, outcome: Outcome, syncs: bool) -> None:
    for seed in SEEDS:
        disk, observed = crashed(site, seed, syncs)
        left = disk.after_crash(outcome, seed)
        Examination(
            Case(disk=left, observed=observed, outcome=outcome, syncs=syncs, seed=seed)
        ).run()


@pytest.mark.parametrize("syncs", [True, False], ids=["fsync", "page-cache"])
@pytest.mark.parametrize("outcome", Outcome, ids=lambda outcome: outcome.name.lower())
def test_invariants_hold_after_another_crash_during_recovery(outcome: Outcome, syncs: bool) -> None:
    for seed in SEEDS:
        random = Random(f"recovery {seed}")
        disk, observed = ended(random.randrange(len(operations(seed, syncs))), seed, syncs, False)
        before = disk.after_crash(outcome, seed)
        recovering = SitedDisk(seed)
        recovering.root = before.after_crash(Outcome.ALL_KEPT, seed).root
        Node(recovering, ManualClock(), seed, syncs=syncs)
        assert recovering.operations
        again = SitedDisk(seed)
        again.root = before.root
        again.crash_at = random.randrange(recovering.operations)
        with pytest.raises(Crash):
            Node(again, ManualClock(), seed, syncs=syncs)
        left = again.after_crash(outcome, seed)
        Examination(
            Case(disk=left, observed=observed, outcome=outcome, syncs=syncs, seed=seed)
        ).run()


def test_a_site_that_is_never_reached_fails() -> None:
    nowhere = Site("nowhere", "produce", "fsync /data/nowhere")
    with pytest.raises(AssertionError, match="never comes to: nowhere"):
        crashed(nowhere, 0, True)


def test_a_broker_that_does_not_sync_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "sync_or_defer", lambda self: True)
    disk = SitedDisk()
    Life(disk, 0, syncs=True).run()
    disk, observed = ended(disk.operations - 10, 0, True, False)
    left = disk.after_crash(Outcome.UNSYNCED_LOST, 0)
    with pytest.raises(AssertionError):
        Examination(
            Case(disk=left, observed=observed, outcome=Outcome.UNSYNCED_LOST, syncs=True, seed=0)
        ).run()


def test_a_recovery_that_cuts_before_valid_batches_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Recovery, "_refuse_unless_torn", lambda *_: None)
    found = 0
    total = len(operations(1, False))
    for number in range(total // 2, total, 50):
        disk, observed = ended(number, 1, False, False)
        left = disk.after_crash(Outcome.PREFIX, number)
        try:
            Examination(
                Case(disk=left, observed=observed, outcome=Outcome.PREFIX, syncs=False, seed=1)
            ).run()
        except AssertionError:
            found += 1
    assert found
